package descriptors

import (
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/pkg/algorithm"
)

// defaults are what the rules of a domain have in common.
type defaults struct {
	node        *yaml.Node
	algorithm   *algorithm.Kind
	burstRatio  float64
	countDenied *bool
	onError     OnError
	consistency Consistency
	headers     HeaderForm
	refused     *Refused
}

var defaultsKeys = []string{"algorithm", "burst_ratio", "count_denied", "on_error", "consistency", "headers", "refused"}

func (d *defaults) equal(o *defaults) bool {
	a, b := *d, *o
	a.node, b.node = nil, nil
	return reflect.DeepEqual(a, b)
}

func (d *defaults) kind(server algorithm.Kind) algorithm.Kind {
	if d.algorithm != nil {
		return *d.algorithm
	}
	return server
}

func (d *document) readDefaults(f field) *defaults {
	out := &defaults{node: f.key}
	fields, ok := d.fields(f.value, "defaults")
	if !ok {
		if !isNull(f.value) {
			d.fail(f.value, codeType, "defaults", "", "defaults must be a map")
		}
		return out
	}
	b := &builder{document: d, loader: &loader{}}
	for _, g := range fields {
		switch g.key.Value {
		case "algorithm":
			k := b.algorithm(g, "defaults", algorithm.FixedWindow)
			out.algorithm = &k
		case "burst_ratio":
			if err := g.value.Decode(&out.burstRatio); err != nil || !(out.burstRatio > 0 && out.burstRatio <= 1e6) {
				d.fail(g.value, codeNumber, "defaults", "2 makes burst twice the limit", "burst_ratio %q is no number above 0", g.value.Value)
			}
		case "count_denied":
			v := d.boolean(g, "defaults")
			out.countDenied = &v
		case "on_error":
			out.onError = d.onError(g, "defaults")
		case "consistency":
			out.consistency = d.consistency(g, "defaults")
		case "headers":
			out.headers = d.headerForms(g, "defaults")
		case "refused":
			out.refused = d.refused(g, "defaults")
		default:
			d.unknown(g, "defaults", defaultsKeys)
		}
	}
	return out
}

func (r *reader) onError(f field, path string) OnError {
	switch r.choice(f, path, "allow", "deny", "error", "local") {
	case "allow":
		return OnErrorAllow
	case "deny":
		return OnErrorDeny
	case "error":
		return OnErrorError
	case "local":
		return OnErrorLocal
	default:
		return OnErrorUnset
	}
}

func (r *reader) consistency(f field, path string) Consistency {
	if r.choice(f, path, "exact", "leased") == "leased" {
		return Leased
	}
	return Exact
}

var headerForms = map[string]HeaderForm{
	"ratelimit": HeadersRateLimit, "x-ratelimit": HeadersXRateLimit, "draft-10": HeadersDraft10, "none": HeadersNone,
}

// headerForms reads a list of forms, or one of them.
func (r *reader) headerForms(f field, path string) HeaderForm {
	var forms HeaderForm
	words := []string{"ratelimit", "x-ratelimit", "draft-10", "none"}
	for _, word := range r.texts(f, path) {
		form, ok := headerForms[word]
		if !ok {
			r.fail(f.value, codeChoice, path, didYouMean(word, words), "headers %q is none of ratelimit, x-ratelimit, draft-10, none", word)
		}
		forms |= form
	}
	if forms&HeadersNone != 0 && forms != HeadersNone {
		r.fail(f.value, codeChoice, path, "", "headers none stands beside other forms")
	}
	return forms
}

func (r *reader) refused(f field, path string) *Refused {
	fields, ok := r.fields(f.value, path)
	if !ok {
		r.fail(f.value, codeType, path, "write {body: text}", "refused must be a map")
		return nil
	}
	out := &Refused{}
	for _, g := range fields {
		switch g.key.Value {
		case "body":
			out.Body = r.text(g, path)
		case "content_type":
			out.ContentType = r.text(g, path)
		case "headers":
			out.Headers = r.refusedHeaders(g, path)
		default:
			r.unknown(g, path, []string{"body", "content_type", "headers"})
		}
	}
	return out
}

// refusedHeaders reads headers of a refusal; what could break a message is
// refused here, and again where answers are built.
func (r *reader) refusedHeaders(f field, path string) map[string]string {
	fields, ok := r.fields(f.value, path)
	if !ok {
		r.fail(f.value, codeType, path, "write {x-reason: too many}", "refused.headers must be a map")
		return nil
	}
	out := map[string]string{}
	for _, g := range fields {
		value := r.text(g, path)
		for i := range len(value) {
			if value[i] < ' ' || value[i] == 0x7f {
				r.fail(g.value, codeChoice, path, "", "header %q has a control character in its value", g.key.Value)
				break
			}
		}
		out[g.key.Value] = value
	}
	return out
}
