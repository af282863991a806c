package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// variables is an environment of a test's own.
type variables map[string]string

func (v variables) Lookup(name string) (string, bool) { s, ok := v[name]; return s, ok }
func (v variables) Set(name, value string) error      { v[name] = value; return nil }
func (v variables) Unset(name string) error           { delete(v, name); return nil }

// parse reads settings from variables, as the program does from its environment.
func parse(t *testing.T, env variables, args ...string) (Settings, error) {
	t.Helper()
	var s Settings
	if err := Tidy(env); err != nil {
		return s, err
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	p, err := kong.New(&s)
	require.NoError(t, err)
	_, err = p.Parse(args)
	return s, err
}

// TestEveryVariableIsRead sets each variable alone to a value of its type and
// finds it in the struct.
func TestEveryVariableIsRead(t *testing.T) {
	n := 0
	walk(reflect.TypeFor[Settings](), func(f reflect.StructField) {
		n++
		t.Run(f.Tag.Get("env"), func(t *testing.T) {
			require.NotEmpty(t, f.Tag.Get("env"), f.Name)
			require.NotEmpty(t, f.Tag.Get("help"), f.Name)
			value, want := sample(f)
			s, err := parse(t, variables{f.Tag.Get("env"): value})
			require.NoError(t, err)
			require.Equal(t, want, fmt.Sprint(find(reflect.ValueOf(s), f.Tag.Get("env"))))
		})
	})
	require.Greater(t, n, 80)
}

// sample is a value for a variable that is not its default, and how it prints.
func sample(f reflect.StructField) (value, printed string) {
	if enum := f.Tag.Get("enum"); enum != "" {
		words := strings.Split(enum, ",")
		return words[len(words)-1], words[len(words)-1]
	}
	switch f.Type.Kind() {
	case reflect.Bool:
		if f.Tag.Get("default") == "true" {
			return "F", "false"
		}
		return "T", "true"
	case reflect.Pointer:
		return "0", "false"
	case reflect.Int:
		return "0x11", "17"
	case reflect.Float64:
		return "0.25", "0.25"
	case reflect.Map:
		return "k:v,k2:v2", "map[k:v k2:v2]"
	case reflect.Int64:
		return "90s", (90 * time.Second).String()
	}
	if f.Type == reflect.TypeFor[Secret]() {
		return "hunter2", "[redacted]"
	}
	return "text", "text"
}

// find gives the field of a variable, in the struct or those embedded in it.
func find(v reflect.Value, variable string) any {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if _, embedded := f.Tag.Lookup("embed"); embedded {
			if found := find(v.Field(i), variable); found != nil {
				return found
			}
		} else if f.Tag.Get("env") == variable {
			if f.Type.Kind() == reflect.Pointer {
				return v.Field(i).Elem().Interface()
			}
			return v.Field(i).Interface()
		}
	}
	return nil
}

func TestAnEmptyVariableIsUnset(t *testing.T) {
	s, err := parse(t, variables{"PORT": "", "SHADOW_MODE": "", "GRPC_MAX_CONNECTION_AGE": "", "REDIS_TYPE": "", "NEAR_LIMIT_RATIO": ""})
	require.NoError(t, err)
	require.Equal(t, 8080, s.Listen.Port)
	require.Equal(t, 24*time.Hour, s.GRPC.MaxAge)
	require.Equal(t, "SINGLE", s.Redis.Type)
}

func TestBooleansInEveryForm(t *testing.T) {
	for text, want := range map[string]bool{
		"1": true, "t": true, "T": true, "TRUE": true, "true": true, "True": true,
		"0": false, "f": false, "F": false, "FALSE": false, "false": false, "False": false,
	} {
		s, err := parse(t, variables{"SHADOW_MODE": text, "RUNTIME_WATCH_ROOT": text})
		require.NoError(t, err, text)
		require.Equal(t, want, s.Answers.ShadowMode, text)
		require.Equal(t, want, s.Rules.WatchRoot, text)
	}
}

func TestBadValuesAreAllNamed(t *testing.T) {
	_, err := parse(t, variables{
		"PORT": "many", "GRPC_MAX_CONNECTION_AGE": "5", "SHADOW_MODE": "maybe", "NEAR_LIMIT_RATIO": "x", "CONFIG_TYPE": "file",
		"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "novalue", "MERGE_DOMAIN_CONFIG": "2", "STATUS_LIMITS": "some",
	})
	for _, want := range []string{
		`PORT="many": not accepted; write a whole number`,
		`GRPC_MAX_CONNECTION_AGE="5": not accepted; write a duration such as 300ms, 10s or 1h`,
		`SHADOW_MODE="maybe": not accepted; write true or false`,
		`NEAR_LIMIT_RATIO="x": not accepted; write a number`,
		`CONFIG_TYPE="file": not accepted; write one of FILE, GRPC_XDS_SOTW`,
		`CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS="novalue": not accepted; write pairs such as key:value,key2:value2`,
		`MERGE_DOMAIN_CONFIG="2": not accepted; write true or false`,
		`STATUS_LIMITS="some": not accepted; write one of all, refusing, enforced`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestFlagsWin(t *testing.T) {
	s, err := parse(t, variables{"PORT": "1", "LOG_LEVEL": "debug"}, "--port=2")
	require.NoError(t, err)
	require.Equal(t, 2, s.Listen.Port)
	require.Equal(t, "debug", s.Log.Level)
}

func TestSecretsAreHidden(t *testing.T) {
	s := Secret("hunter2")
	for _, format := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		require.NotContains(t, fmt.Sprintf(format, s), "hunter2", format)
		require.NotContains(t, fmt.Sprintf(format, struct{ S Secret }{s}), "hunter2", format)
	}
	text, err := s.MarshalText()
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter2")
	require.Equal(t, "hunter2", s.Reveal())
}

func TestWarnings(t *testing.T) {
	t.Setenv("LOCAL_CACHE_SIZE_IN_BYTES", "1000")
	t.Setenv("TRACING_ENABLED", "false")
	s := Settings{}
	s.Rules.OnError = "local"
	text := strings.Join(s.Warnings(), "\n")
	require.Contains(t, text, "LOCAL_CACHE_SIZE_IN_BYTES")
	require.Contains(t, text, "EXPECTED_REPLICAS")
	require.NotContains(t, text, "TRACING_ENABLED")
}
