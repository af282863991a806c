package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Environment is the part of the process environment that parsing reads and
// tidies: os.LookupEnv, os.Setenv and os.Unsetenv, or a map in tests.
type Environment interface {
	Lookup(name string) (string, bool)
	Set(name, value string) error
	Unset(name string) error
}

// Tidy prepares the environment for kong: variables that are set but empty are
// unset, and booleans are brought from all accepted forms to true and false. It
// reports every value that its variable does not take.
func Tidy(env Environment) error {
	var problems []string
	walk(reflect.TypeFor[Settings](), func(f reflect.StructField) {
		for name := range strings.SplitSeq(f.Tag.Get("env"), ",") {
			value, set := env.Lookup(name)
			if !set || name == "" {
				continue
			}
			if value == "" {
				_ = env.Unset(name)
				continue
			}
			canonical, accepted := check(f, value)
			switch {
			case accepted != "":
				problems = append(problems, fmt.Sprintf("%s=%s: not accepted; write %s", name, shown(f, value), accepted))
			case canonical != value:
				_ = env.Set(name, canonical)
			}
		}
	})
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(problems, "\n"))
}

// walk visits the fields of the struct and of the structs embedded in it.
func walk(t reflect.Type, visit func(reflect.StructField)) {
	for i := range t.NumField() {
		f := t.Field(i)
		if _, embedded := f.Tag.Lookup("embed"); embedded {
			walk(f.Type, visit)
		} else {
			visit(f)
		}
	}
}

func shown(f reflect.StructField, value string) string {
	if f.Type == reflect.TypeFor[Secret]() {
		return Secret(value).String()
	}
	return strconv.Quote(value)
}

// check gives the value in the form that kong reads, or what would be accepted.
func check(f reflect.StructField, value string) (canonical, accepted string) {
	if enum := f.Tag.Get("enum"); enum != "" {
		words := strings.Split(enum, ",")
		if !slices.Contains(words, value) {
			return "", "one of " + strings.Join(words, ", ")
		}
		return value, ""
	}
	kind := f.Type.Kind()
	if kind == reflect.Pointer {
		kind = f.Type.Elem().Kind()
	}
	switch {
	case f.Type == reflect.TypeFor[time.Duration]():
		if _, err := time.ParseDuration(value); err != nil {
			return "", "a duration such as 300ms, 10s or 1h"
		}
	case kind == reflect.Bool:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return "", "true or false"
		}
		return strconv.FormatBool(b), ""
	case kind == reflect.Int:
		if _, err := strconv.ParseInt(value, 0, 64); err != nil {
			return "", "a whole number"
		}
	case kind == reflect.Float64:
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return "", "a number"
		}
	case kind == reflect.Map:
		pairs := strings.Split(value, ",")
		for i, pair := range pairs {
			k, v, ok := strings.Cut(pair, ":")
			if !ok {
				return "", "pairs such as key:value,key2:value2"
			}
			pairs[i] = k + "=" + v
		}
		return strings.Join(pairs, ","), ""
	}
	return value, ""
}

// Effective is one setting with its value and where it came from.
type Effective struct {
	Flag, Env, Value, Origin, Default, Help, Group string
}

// Describe lists all settings of a command in order of declaration.
// Secrets are hidden.
func Describe(command *kong.Node, env Environment, args []string) []Effective {
	var out []Effective
	for _, group := range command.AllFlags(true) {
		for _, f := range group {
			if f.Group == nil {
				continue
			}
			e := Effective{
				Flag: "--" + f.Name, Value: valueText(f.Target), Default: f.Default,
				Help: f.Help, Group: f.Group.Title, Origin: "default",
			}
			if len(f.Envs) > 0 {
				e.Env = f.Envs[0]
				if _, set := env.Lookup(e.Env); set {
					e.Origin = "environment"
				}
			}
			if given(f, args) {
				e.Origin = "flag"
			}
			out = append(out, e)
		}
	}
	return out
}

// valueText prints a value as its variable would be written; maps as k:v pairs.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Map {
		var pairs []string
		for _, k := range v.MapKeys() {
			pairs = append(pairs, k.String()+":"+v.MapIndex(k).String())
		}
		slices.Sort(pairs)
		return strings.Join(pairs, ",")
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

func given(f *kong.Flag, args []string) bool {
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if name == "--"+f.Name || name == "--no-"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
			return true
		}
	}
	return false
}
