package proc

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const redisLimit = 2 * time.Second

// Redis is a Redis server of our own: loopback, empty, nothing written to disk.
type Redis struct {
	*Process
	Addr string
	dir  string
}

// StartRedis runs the program on a free port.
func StartRedis(ctx context.Context, program string) (*Redis, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-redis-")
	if err != nil {
		return nil, err
	}
	r := &Redis{Addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), dir: dir}
	command := []string{program, "--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning"}
	r.Process, err = Start(ctx, "redis", command, nil, func() error {
		_, err := r.Info("server")
		return err
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return r, nil
}

// Stop ends the server.
func (r *Redis) Stop() {
	r.Process.Stop()
	_ = os.RemoveAll(r.dir)
}

// Info gives one section of INFO: name to value.
func (r *Redis) Info(section string) (map[string]string, error) {
	conn, err := net.DialTimeout("tcp", r.Addr, redisLimit)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(redisLimit)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(conn, "INFO %s\r\n", section); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	head, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	length, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil || head[0] != '$' {
		return nil, fmt.Errorf("INFO answers %q", head)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, err
	}
	return parseInfo(string(body)), nil
}

func parseInfo(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values
}

// Calls counts commands and the time that Redis spent executing them.
type Calls struct {
	Count uint64
	Spent time.Duration
}

// Since is what was added after an earlier count.
func (c Calls) Since(before Calls) Calls {
	return Calls{Count: c.Count - before.Count, Spent: c.Spent - before.Spent}
}

// PerCall is the mean time of a call.
func (c Calls) PerCall() time.Duration {
	if c.Count == 0 {
		return 0
	}
	return c.Spent / time.Duration(c.Count)
}

// Commands gives what clients have asked for, by command.
func (r *Redis) Commands() (map[string]Calls, error) {
	info, err := r.Info("commandstats")
	if err != nil {
		return nil, err
	}
	return parseCommands(info)
}

// parseCommands reads lines such as
// cmdstat_evalsha:calls=3,usec=40,usec_per_call=13.33,….
func parseCommands(info map[string]string) (map[string]Calls, error) {
	commands := map[string]Calls{}
	for name, value := range info {
		command, ok := strings.CutPrefix(name, "cmdstat_")
		if !ok {
			continue
		}
		var calls, us uint64
		if _, err := fmt.Sscanf(value, "calls=%d,usec=%d,", &calls, &us); err != nil {
			return nil, fmt.Errorf("commandstats of %s: %q: %w", command, value, err)
		}
		commands[command] = Calls{Count: calls, Spent: time.Duration(us) * time.Microsecond}
	}
	return commands, nil
}

// Work adds up the calls between two counts that belong to decisions: scripts,
// or plain commands where there are no scripts. Commands that a script runs are
// in the script's time, and Redis counts them a second time under their own name.
func Work(before, after map[string]Calls) Calls {
	var scripts, plain Calls
	for command, calls := range after {
		d := calls.Since(before[command])
		switch command {
		case "eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro":
			scripts.Count += d.Count
			scripts.Spent += d.Spent
		case "info", "ping", "hello", "auth", "select", "client", "script", "command":
		default:
			plain.Count += d.Count
			plain.Spent += d.Spent
		}
	}
	if scripts.Count > 0 {
		return scripts
	}
	return plain
}
