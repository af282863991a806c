package main

import (
	"slices"
	"time"

	"github.com/weirhq/weir/test/bench/internal/load"
)

// scenario is one kind of traffic and the servers that get it.
type scenario struct {
	name        string
	what        string // for the reader of the report
	shape       load.Shape
	connections int
	callers     int     // on each connection
	rate        float64 // requests per second by a schedule; 0 is a closed loop
	longer      int     // rounds of so many times the duration; 0 is once
	servers     []string
	others      bool // the servers given by --other get it too
}

// The scenarios that others are compared with, or that need a server.
const (
	oneScenario       = "one"
	hotScenario       = "hot"
	leasedScenario    = "leased"
	deniedScenario    = "denied"
	fewRulesScenario  = "rules-10"
	manyRulesScenario = "rules-100000"
)

const (
	connections   = 4
	callers       = 32
	wideConns     = 64
	wideCallers   = 2
	manyKeys      = 10_000
	deniedKeys    = 100
	mixedDenied   = 0.1
	openRate      = 2000
	callerTimeout = time.Second
	rulesLonger   = 3 // many rules cost in garbage collections, which are rare
)

func allScenarios() []scenario {
	all := []string{floorName, memoryName, redisName}
	stores := []string{memoryName, redisName}
	plain := func(descriptors int) load.Shape {
		return load.Shape{Domain: plainDomain, Descriptors: descriptors, Keys: manyKeys, Keyed: load.Uniform, AllowKey: allowKey, DenyKey: denyKey}
	}
	hot := plain(1)
	hot.Keyed = load.OneKey
	leased := hot
	leased.Domain = leasedDomain
	denied := plain(1)
	denied.Keys, denied.Denied = deniedKeys, 1
	zipf := plain(1)
	zipf.Keyed, zipf.Denied = load.Zipf, mixedDenied
	few := plain(1)
	few.Domain, few.AllowKey, few.Routes, few.Keys = routesDomain, clientKey, fewRoutes, manyRoutes
	many := few
	many.Routes = manyRoutes

	list := []scenario{
		{name: oneScenario, what: "one descriptor, 10,000 keys", shape: plain(1), servers: all, others: true},
		{name: "two", what: "two descriptors", shape: plain(2), servers: stores, others: true},
		{name: "ten", what: "ten descriptors", shape: plain(10), servers: stores, others: true},
		{name: hotScenario, what: "one key only", shape: hot, servers: stores, others: true},
		{name: leasedScenario, what: "one key only, `consistency: leased`", shape: leased, servers: []string{redisName}},
		{name: deniedScenario, what: "100 keys, all refused", shape: denied, servers: stores, others: true},
		{name: "zipf", what: "10,000 keys by Zipf, one request in ten refused", shape: zipf, servers: stores, others: true},
		{name: "wide", what: "64 connections with 2 calls in flight", shape: plain(1), connections: wideConns, callers: wideCallers, servers: all, others: true},
		{name: fewRulesScenario, what: "10 rules, 100,000 keys", shape: few, servers: []string{memoryName}, longer: rulesLonger},
		{name: manyRulesScenario, what: "100,000 rules, 100,000 keys", shape: many, servers: []string{manyName}, longer: rulesLonger},
		{name: "paced", what: "2,000 requests a second by Poisson, latency from the scheduled time", shape: plain(1), rate: openRate, servers: all, others: true},
	}
	for i := range list {
		if list[i].connections == 0 {
			list[i].connections, list[i].callers = connections, callers
		}
	}
	return list
}

// chosen keeps the named scenarios, and "one" on the floor, which all ratios
// need.
func chosen(names []string) []scenario {
	list := allScenarios()
	if len(names) == 0 {
		return list
	}
	return slices.DeleteFunc(list, func(s scenario) bool { return s.name != oneScenario && !slices.Contains(names, s.name) })
}
