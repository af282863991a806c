// Package compat plays the black-box cases of testdata/cases against the built
// server, over the memory store and over Redis. It speaks only the wire: gRPC,
// HTTP, files, signals and Redis commands, so that it can be pointed at any
// server with the same environment (WEIR_COMPAT_BINARY).
package compat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// testCase is one YAML document.
type testCase struct {
	Name           string            `yaml:"name"`
	Reference      string            `yaml:"reference"`
	Config         map[string]string `yaml:"config"`
	Env            map[string]string `yaml:"env"`
	Servers        int               `yaml:"servers"`
	OwnRedis       bool              `yaml:"own_redis"`
	RedisCluster   bool              `yaml:"redis_cluster"`
	RedisProxy     bool              `yaml:"redis_proxy"`
	RedisConf      []string          `yaml:"redis_conf"`
	RedisDownFirst bool              `yaml:"redis_down_at_start"`
	Room           *duration         `yaml:"room"`
	SkipBackend    string            `yaml:"skip_backend"`
	Heavy          bool              `yaml:"heavy"`
	LogNever       []string          `yaml:"log_never"`
	LogHas         []string          `yaml:"log_has"`
	Steps          []step            `yaml:"steps"`
}

// step is one of its first group of fields, with what is expected of it.
type step struct {
	Request     *request          `yaml:"request"`
	Sleep       *duration         `yaml:"sleep"`
	WaitUntil   *waitUntil        `yaml:"wait_until"`
	Config      map[string]string `yaml:"config"`
	Files       []fileOp          `yaml:"files"`
	HTTP        *httpStep         `yaml:"http"`
	Health      *healthStep       `yaml:"health"`
	Redis       *redisStep        `yaml:"redis"`
	RedisServer string            `yaml:"redis_server"`
	Proxy       string            `yaml:"proxy"`
	Signal      *signalStep       `yaml:"signal"`
	Restart     string            `yaml:"restart"`
	Command     *commandStep      `yaml:"command"`
	Memory      *memoryStep       `yaml:"memory"`
	Join        bool              `yaml:"join"`

	Background bool      `yaml:"background"`
	Eventually *duration `yaml:"eventually"`

	Expect      string            `yaml:"expect"`
	Answers     string            `yaml:"answers"`
	Count       map[string]string `yaml:"count"`
	Left        *bounds           `yaml:"left"`
	Reset       boundsList        `yaml:"reset"`
	StableReset bool              `yaml:"stable_reset"`
	Headers     map[string]string `yaml:"headers"`
	Metadata    string            `yaml:"metadata"`
	Window      *duration         `yaml:"window"`
	Match       string            `yaml:"match"`
	Within      *duration         `yaml:"within"`
	Slow        int               `yaml:"slow"`
}

type request struct {
	Domain      string         `yaml:"domain"`
	Descriptors []descriptor   `yaml:"descriptors"`
	Hits        uint32         `yaml:"hits"`
	Times       int            `yaml:"times"`
	Parallel    int            `yaml:"parallel"`
	Every       duration       `yaml:"every"`
	For         duration       `yaml:"for"`
	Unique      string         `yaml:"unique"`
	Pad         map[string]int `yaml:"pad"`
	Copies      int            `yaml:"copies"`
	Timeout     duration       `yaml:"timeout"`
	Server      string         `yaml:"server"`
}

type descriptor struct {
	Entries  []map[string]string `yaml:"entries"`
	Hits     *uint64             `yaml:"hits"`
	Negative bool                `yaml:"negative"`
	Limit    *limit              `yaml:"limit"`
}

type limit struct {
	RPU        uint32  `yaml:"rpu"`
	Unit       string  `yaml:"unit"`
	Multiplier *uint32 `yaml:"multiplier"`
}

type waitUntil struct {
	Window duration `yaml:"window"`
	Offset duration `yaml:"offset"`
}

type fileOp struct {
	Write   string   `yaml:"write"`
	InPlace string   `yaml:"in_place"`
	Pause   duration `yaml:"pause"`
	Symlink string   `yaml:"symlink"`
	Rename  string   `yaml:"rename"`
	Remove  string   `yaml:"remove"`
	Touch   string   `yaml:"touch"`
	To      string   `yaml:"to"`
	Text    string   `yaml:"text"`
}

type httpStep struct {
	Port     string   `yaml:"port"`
	Method   string   `yaml:"method"`
	Path     string   `yaml:"path"`
	Body     string   `yaml:"body"`
	Grep     string   `yaml:"grep"`
	Status   int      `yaml:"status"`
	Has      []string `yaml:"has"`
	Lacks    []string `yaml:"lacks"`
	Match    string   `yaml:"match"`
	MaxLines int      `yaml:"max_lines"`
}

type healthStep struct {
	Service string `yaml:"service"`
	Status  string `yaml:"status"`
}

type redisStep struct {
	Do       []string `yaml:"do"`
	Each     []string `yaml:"each"`
	TTL      *bounds  `yaml:"ttl"`
	Size     *bounds  `yaml:"size"`
	Bytes    *bounds  `yaml:"bytes"`
	Members  *bounds  `yaml:"members"`
	Commands *bounds  `yaml:"commands"`
	Calls    *bounds  `yaml:"calls"`
	Slowlog  *bounds  `yaml:"slowlog"`
}

type signalStep struct {
	Name   string   `yaml:"name"`
	Exit   *int     `yaml:"exit"`
	Within duration `yaml:"within"`
	Server int      `yaml:"server"`
}

type commandStep struct {
	Args  []string `yaml:"args"`
	Exit  int      `yaml:"exit"`
	Has   []string `yaml:"has"`
	Lacks []string `yaml:"lacks"`
}

type memoryStep struct {
	MaxMB int `yaml:"max_mb"`
}

type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	*d = duration(v)
	return err
}

// read loads every case of every file; an unknown field is an error.
func read(t *testing.T) []testCase {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var cases []testCase
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		for {
			var c testCase
			err := decoder.Decode(&c)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, file)
			cases = append(cases, c)
		}
	}
	return cases
}

// pending are the names of cases whose features do not exist yet, with why.
func pending(t *testing.T) map[string]string {
	text, err := os.ReadFile("testdata/pending.txt")
	require.NoError(t, err)
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, " — ")
		require.True(t, ok, "pending.txt: %q gives no reason", line)
		out[name] = why
	}
	return out
}

func TestEveryCaseNameIsItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range read(t) {
		require.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
	}
	for name := range pending(t) {
		require.True(t, seen[name], "pending.txt names %q, which is no case", name)
	}
}

func (d duration) String() string { return time.Duration(d).String() }

var _ fmt.Stringer = duration(0)
