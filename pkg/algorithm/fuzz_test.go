package algorithm

import (
	"encoding/binary"
	"testing"
)

// FuzzApply plays arbitrary asks, times and changes of numbers on a state that
// may hold anything: nothing panics, Decide is pure and agrees with Apply, and
// on a state of our own making the numbers are in range.
func FuzzApply(f *testing.F) {
	for kind := range Kinds() {
		f.Add(uint8(kind), uint8(0), int64(10), int64(1000), int64(0), int64(0), int64(0), int64(0), int64(0), []byte("spend, look, charge and refund some hits"))
		f.Add(uint8(kind), uint8(1), int64(MaxRequests), int64(365*86_400_000), int64(5), int64(MaxRequests), int64(1)<<60, int64(-5), int64(3), []byte{0, 255, 1, 254, 2, 253})
		f.Add(uint8(kind), uint8(7), int64(0), int64(1), int64(1), int64(1), int64(0), int64(0), int64(0), []byte{0, 0, 0, 0, 0})
	}
	f.Fuzz(func(t *testing.T, kind, flags uint8, requests, windowMS, burst, debt, at, n, prev int64, script []byte) {
		l := Limit{Kind: Kind(kind % 6), Requests: requests, MaxDebt: debt}
		switch l.Kind {
		case Concurrency:
			l.LeaseTTLUS = windowMS % (MaxWindowUS / 1000) * 1000
		default:
			l.WindowUS = windowMS % (MaxWindowUS / 1000) * 1000
			l.PostPaid = flags&1 != 0
		}
		switch l.Kind {
		case FixedWindow:
			l.CountDenied = flags&2 != 0
		case TokenBucket, LeakyBucket:
			l.Burst = burst
		case SlidingWindowLog:
			l.Precision = burst
		}
		s, err := NewSpec(l)
		if err != nil {
			return
		}
		st := &State{At: at, N: n, Prev: prev}
		own := at == 0 && n == 0 && prev == 0
		now := int64(1_700_000_000_000_000)
		for len(script) >= 4 {
			step := binary.LittleEndian.Uint32(script)
			script = script[4:]
			ask := Ask{Mode: Mode(step % 6), Cost: int64(step >> 3 & 0xff), Lease: string(rune('a' + step>>4&7))}
			if step>>11&3 == 0 {
				ask.Cost = requests + ask.Cost - 128
			}
			now += int64(step>>13&0x3ff) * max(s.WindowUS, s.LeaseTTLUS) / 512
			if step>>23&15 == 0 {
				now -= int64(step >> 13)
			}
			d := decideAndApply(t, s, st, now, ask)
			if s.IdleAtUS(st); own {
				checkRange(t, s, ask, d)
			}
		}
	})
}

func checkRange(t *testing.T, s *Spec, ask Ask, d Decision) {
	t.Helper()
	ok := d.Remaining >= 0 && d.Remaining <= s.Most() &&
		d.Taken >= 0 && d.Used >= 0 && d.Used <= maxCount &&
		d.RetryAfterUS >= 0 && d.RetryAfterUS <= maxExact &&
		d.ResetAfterUS >= 0 && d.ResetAfterUS <= maxExact &&
		(d.RetryAfterUS > 0) == (!d.Allowed && !d.Never && s.Kind != Concurrency)
	if s.Kind != Concurrency {
		ok = ok && d.Taken <= max(0, ask.Cost)
	}
	if !ok {
		t.Fatalf("%+v of %+v: out of range: %+v", ask, s.Limit, d)
	}
}
