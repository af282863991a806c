package envoyrls

import (
	"github.com/weirhq/weir/pkg/algorithm"
	"github.com/weirhq/weir/pkg/limiter"
)

// release gives back the places that a call took although its request does not
// run: it was refused by another rule, or its caller is gone. It does not wait;
// a lost release ages out with the lease.
func (s *Service) release(c *Call) {
	if c.lease == "" {
		return
	}
	var checks []limiter.Check
	for i := range c.Descriptors {
		d := &c.Descriptors[i]
		if d.Check == nil || !d.concurrency() || d.Check.Ask.Mode != algorithm.Spend {
			continue
		}
		checks = append(checks, limiter.Check{
			Rule:   d.Check.Rule,
			Limits: d.Check.Limits,
			Ask:    algorithm.Ask{Mode: algorithm.Refund, Cost: d.Check.Ask.Cost, Lease: c.lease},
		})
	}
	c.lease = ""
	if len(checks) > 0 {
		s.decider.Submit([]*limiter.Request{{Checks: checks}}, func() {})
	}
}
