package compat

import (
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// redisDo runs a command on every server, or checks what they hold.
func (w *world) redisDo(r *redisStep) error {
	var keys, commands int64
	for _, c := range w.redisClients() {
		if len(r.Do) > 0 {
			if err := c.Do(background(), words(r.Do)...).Err(); err != nil {
				return fmt.Errorf("redis %v: %w", r.Do, err)
			}
		}
		n, err := w.redisKeys(c, r)
		if err != nil {
			return err
		}
		keys += n
		n, err = scriptCalls(c)
		if err != nil {
			return err
		}
		commands += n
		if err := checkSlowlog(c, r.Slowlog); err != nil {
			return err
		}
	}
	if r.Size != nil && !r.Size.holds(keys) {
		return fmt.Errorf("redis holds %d keys, want %d..%d", keys, r.Size.least, r.Size.most)
	}
	for _, b := range []*bounds{r.Commands, r.Calls} {
		if b != nil && !b.holds(commands) {
			return fmt.Errorf("redis was called %d times, want %d..%d", commands, b.least, b.most)
		}
	}
	return nil
}

func words(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// redisKeys checks every key and counts them.
func (w *world) redisKeys(c *goredis.Client, r *redisStep) (int64, error) {
	if r.TTL == nil && r.Size == nil && r.Bytes == nil && r.Members == nil && len(r.Each) == 0 {
		return 0, nil
	}
	ctx := background()
	n := int64(0)
	for it := c.Scan(ctx, 0, "*", 1000).Iterator(); it.Next(ctx); {
		key := it.Val()
		n++
		ttl, err := c.Do(ctx, "PTTL", key).Int64()
		if err != nil {
			return n, err
		}
		if ttl == -2 {
			n-- // gone between the scan and here
			continue
		}
		if ttl == -1 {
			return n, fmt.Errorf("key %q never expires", key)
		}
		if r.TTL != nil && !r.TTL.holds(ttl) {
			return n, fmt.Errorf("key %q lives for %d ms, want %d..%d", key, ttl, r.TTL.least, r.TTL.most)
		}
		if err := checkSizes(c, key, r); err != nil {
			return n, err
		}
	}
	return n, nil
}

func checkSizes(c *goredis.Client, key string, r *redisStep) error {
	ctx := background()
	if r.Bytes != nil {
		bytes, err := c.MemoryUsage(ctx, key).Result()
		if err != nil {
			return err
		}
		if !r.Bytes.holds(bytes) {
			return fmt.Errorf("key %q takes %d bytes, want %d..%d", key, bytes, r.Bytes.least, r.Bytes.most)
		}
	}
	if r.Members != nil {
		n, err := members(c, key)
		if err != nil {
			return err
		}
		if !r.Members.holds(n) {
			return fmt.Errorf("key %q has %d members, want %d..%d", key, n, r.Members.least, r.Members.most)
		}
	}
	if len(r.Each) > 0 {
		args := words(r.Each)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i].(string), "{key}", key)
		}
		return c.Do(ctx, args...).Err()
	}
	return nil
}

func members(c *goredis.Client, key string) (int64, error) {
	ctx := background()
	kind, err := c.Type(ctx, key).Result()
	if err != nil {
		return 0, err
	}
	switch kind {
	case "zset":
		return c.ZCard(ctx, key).Result()
	case "hash":
		return c.HLen(ctx, key).Result()
	case "list":
		return c.LLen(ctx, key).Result()
	case "set":
		return c.SCard(ctx, key).Result()
	default:
		return 1, nil
	}
}

// scriptCalls is how many scripts the server has run.
func scriptCalls(c *goredis.Client) (int64, error) {
	info, err := c.Info(background(), "commandstats").Result()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for line := range strings.Lines(info) {
		for _, name := range []string{"evalsha", "eval"} {
			var calls int64
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d,", &calls); err == nil {
				total += calls
			}
		}
	}
	return total, nil
}

func checkSlowlog(c *goredis.Client, b *bounds) error {
	if b == nil {
		return nil
	}
	n, err := c.Do(background(), "SLOWLOG", "LEN").Int64()
	if err != nil {
		return err
	}
	if !b.holds(n) {
		return fmt.Errorf("the slow log has %d entries, want %d..%d", n, b.least, b.most)
	}
	return nil
}
