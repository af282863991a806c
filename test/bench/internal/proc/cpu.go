package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tick is the unit of /proc's CPU times: USER_HZ is 100 on every Linux that Go
// runs on.
const tick = 10 * time.Millisecond

// CPU is the user and system time that a process has used, in whole ticks of
// 10 ms.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(stat)
}

// parseStat adds fields 14 and 15. Field 2, the name, may hold anything, so
// counting begins behind its last parenthesis.
func parseStat(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const userTime, systemTime = 14 - 3, 15 - 3
	if len(fields) <= systemTime {
		return 0, fmt.Errorf("stat %q: too few fields", stat)
	}
	return addTicks(fields[userTime], fields[systemTime])
}

// Busy is the time that all CPUs of the machine together have spent on
// anything but idling and waiting for disks, and what the hypervisor took.
func Busy() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(stat)
}

func parseBusy(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	if len(fields) <= steal || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins %q", line)
	}
	return addTicks(fields[user], fields[nice], fields[system], fields[irq], fields[softirq], fields[steal])
}

func addTicks(fields ...[]byte) (time.Duration, error) {
	var total time.Duration
	for _, f := range fields {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

// Machine is the CPU model and the kernel's release, for a report.
func Machine() (cpu, kernel string) {
	cpu, kernel = "unknown CPU", "unknown"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range bytes.Lines(info) {
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
				cpu = string(bytes.TrimSpace(value))
				break
			}
		}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = string(bytes.TrimSpace(release))
	}
	return cpu, kernel
}
