package descriptors

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/pkg/algorithm"
)

const day = 24 * time.Hour

var unitLengths = [...]time.Duration{
	UnitUnknown: 0, Second: time.Second, Minute: time.Minute, Hour: time.Hour,
	Day: day, Month: 30 * day, Year: 365 * day, Week: 7 * day,
}

var unitNames = [...]string{
	UnitUnknown: "UNKNOWN", Second: "SECOND", Minute: "MINUTE", Hour: "HOUR",
	Day: "DAY", Month: "MONTH", Year: "YEAR", Week: "WEEK",
}

func (u Unit) length() time.Duration { return unitLengths[u] }

// String gives the protocol's name.
func (u Unit) String() string { return unitNames[u] }

// parseUnit reads a unit's name in any case; UNKNOWN is none.
func parseUnit(text string) (Unit, bool) {
	for u := Second; int(u) < len(unitNames); u++ {
		if strings.EqualFold(unitNames[u], text) {
			return u, true
		}
	}
	return UnitUnknown, false
}

// unitOf says a window in the protocol's terms: a plain unit where there is
// one, else a multiple of the largest that divides it. Windows below a second
// and fractions of one are rounded up.
func unitOf(window time.Duration) (Unit, uint32) {
	for u := Second; int(u) < len(unitLengths); u++ {
		if window == u.length() {
			return u, 1
		}
	}
	for _, u := range []Unit{Week, Day, Hour, Minute} {
		if window%u.length() == 0 {
			return u, uint32(window / u.length())
		}
	}
	return Second, uint32((window + time.Second - 1) / time.Second)
}

var windowUnits = []struct {
	suffix string
	length time.Duration
}{
	{"ms", time.Millisecond}, {"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", day}, {"w", 7 * day},
}

// parseWindow reads a length of time: whole numbers with ms, s, m, h, d or w,
// such as 30s, 1h30m, 7d.
func parseWindow(text string) (time.Duration, error) {
	rest, total := text, time.Duration(0)
	for rest != "" {
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, errors.New("is no length of time")
		}
		rest = rest[digits:]
		length := time.Duration(0)
		for _, u := range windowUnits {
			if strings.HasPrefix(rest, u.suffix) {
				length, rest = u.length, rest[len(u.suffix):]
				break
			}
		}
		if length == 0 {
			return 0, errors.New("is no length of time")
		}
		if n > algorithm.MaxWindowUS/length.Microseconds() {
			return 0, errors.New("is longer than 366 days")
		}
		total += time.Duration(n) * length
	}
	switch {
	case text == "":
		return 0, errors.New("is no length of time")
	case total <= 0:
		return 0, errors.New("is no length above zero")
	case total.Microseconds() > algorithm.MaxWindowUS:
		return 0, errors.New("is longer than 366 days")
	}
	return total, nil
}
