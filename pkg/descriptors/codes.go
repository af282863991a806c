package descriptors

// The codes of diagnostics. They are stable: a code is never reused. Codes is
// the table that docs/CONFIG.md shows.
const (
	codeSyntax        = "WEIR1001"
	codeNoMap         = "WEIR1002"
	codeUnknownKey    = "WEIR1003"
	codeMisplaced     = "WEIR1004"
	codeRepeatedKey   = "WEIR1005"
	codeType          = "WEIR1006"
	codeDomain        = "WEIR1007"
	codeSecondFile    = "WEIR1008"
	codeLaterDocument = "WEIR1009"
	codeEmptyKey      = "WEIR1010"
	codeDuplicate     = "WEIR1011"
	codeUnit          = "WEIR1012"
	codeUnlimitedUnit = "WEIR1013"
	codeWindow        = "WEIR1014"
	codeNumber        = "WEIR1015"
	codeAlgorithm     = "WEIR1016"
	codeOption        = "WEIR1017"
	codeReplaces      = "WEIR1018"
	codeShare         = "WEIR1019"
	codeMetadata      = "WEIR1020"
	codeConditions    = "WEIR1021"
	codeCondition     = "WEIR1022"
	codeList          = "WEIR1023"
	codeChoice        = "WEIR1024"
	codeHash          = "WEIR1025"
	codeName          = "WEIR1026"
	codeDefaults      = "WEIR1027"
	codeTie           = "WEIR1028"
	codeTooBig        = "WEIR1029"
	codeNoEffect      = "WEIR1030"
	codeForeign       = "WEIR1031"
	codeNothing       = "WEIR1032"
)

// Code is one row of the table of diagnostics.
type Code struct {
	Code, Meaning string
}

// Codes lists every code with its meaning.
func Codes() []Code {
	return []Code{
		{codeSyntax, "the file is no valid YAML"},
		{codeNoMap, "a map was expected: the file, a descriptor, an element of `replaces`"},
		{codeUnknownKey, "no such key"},
		{codeMisplaced, "a known key in a place where it does nothing"},
		{codeRepeatedKey, "the same YAML key twice in one map; the last one counts"},
		{codeType, "a value of another type than the key takes"},
		{codeDomain, "no domain, or an empty one"},
		{codeSecondFile, "a second file of one domain although merging is switched off"},
		{codeLaterDocument, "a second YAML document, which is not read in this layout"},
		{codeEmptyKey, "a descriptor without `key`"},
		{codeDuplicate, "the same rule twice at one level"},
		{codeUnit, "no unit, or none that exists"},
		{codeUnlimitedUnit, "`unlimited` beside a unit"},
		{codeWindow, "`window` is no length of time, or stands beside `unit`"},
		{codeNumber, "a number outside its range"},
		{codeAlgorithm, "no such algorithm"},
		{codeOption, "an option that the algorithm does not have, or numbers it cannot hold"},
		{codeReplaces, "`replaces` names nothing or its own limit"},
		{codeShare, "`share_threshold` without a pattern or another value condition"},
		{codeMetadata, "`metadata` that answers cannot carry"},
		{codeConditions, "more than one value condition in a descriptor"},
		{codeCondition, "a value condition that cannot be read: network, path, expression"},
		{codeList, "something that a `rate_limits` list cannot hold"},
		{codeChoice, "none of the words that the key takes"},
		{codeHash, "`hash_value` without a secret"},
		{codeName, "a name that headers cannot carry as it is"},
		{codeDefaults, "two files of a domain with different `defaults` or `all_or_nothing`"},
		{codeTie, "two rules that match the same values equally well; the first one counts"},
		{codeTooBig, "a file that is too large, too deep, or expands to too much"},
		{codeNoEffect, "a setting without effect"},
		{codeForeign, "a YAML file beside the rule files that is none: it has no `domain` and no `descriptors`"},
		{codeNothing, "no rule file at all"},
	}
}
