package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stampLabel = "bench-stamp"
	namespace  = "bench"
	nodes      = 200
)

type args map[string]string

type result map[string]any

func parse(words []string) args {
	found := args{}
	for i := 0; i+1 < len(words); i++ {
		if name, ok := strings.CutPrefix(words[i], "--"); ok {
			found[name] = words[i+1]
			i++
		}
	}
	return found
}

func (a args) text(name string) string { return a[name] }

func (a args) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(a[name]); err == nil {
		return n
	}
	return otherwise
}

type meter struct {
	began time.Time
	cpu   float64
}

func startMeter() meter { return meter{time.Now(), cpuSeconds()} }

// launched is when the process began to run what is written here.
var launched = time.Now()

// processMeter counts from the start of the process.
func processMeter() meter { return meter{launched, 0} }

func (m meter) read() (float64, float64) {
	return time.Since(m.began).Seconds(), cpuSeconds() - m.cpu
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// memory returns what is resident now and at its peak, in KiB.
func memory() (int, int) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	field := func(name string) int {
		for _, line := range strings.Split(string(status), "\n") {
			if rest, ok := strings.CutPrefix(line, name); ok {
				n, _ := strconv.Atoi(strings.Fields(rest)[0])
				return n
			}
		}
		return 0
	}
	return field("VmRSS:"), field("VmHWM:")
}

// settle gives back what the collector can, so that the memory shown is what is held.
func settle() {
	runtime.GC()
	debug.FreeOSMemory()
}

func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func say(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func ready() { say(result{"ready": true}) }

var input = bufio.NewReader(os.Stdin)

func command() { _, _ = input.ReadString('\n') }

func name(n int) string { return fmt.Sprintf("object-%06d", n) }

type lags struct {
	mu    sync.Mutex
	times [][2]int64 // the stamp and how old it was
}

func (l *lags) stamp(text string, at time.Time) {
	then, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}
	l.mu.Lock()
	l.times = append(l.times, [2]int64{then, at.UnixMicro() - then})
	l.mu.Unlock()
}

func (l *lags) reset() {
	l.mu.Lock()
	l.times = nil
	l.mu.Unlock()
}

func (l *lags) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.times)
}

// seen returns every stamp with how old it was.
func (l *lags) seen() [][2]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times
}

func (l *lags) summary() result {
	l.mu.Lock()
	defer l.mu.Unlock()
	sort.Slice(l.times, func(i, j int) bool { return l.times[i][1] < l.times[j][1] })
	at := func(part float64) int64 {
		if len(l.times) == 0 {
			return 0
		}
		return l.times[int(float64(len(l.times)-1)*part+0.5)][1]
	}
	return result{"p50_us": at(0.5), "p90_us": at(0.9), "p99_us": at(0.99), "max_us": at(1), "count": len(l.times)}
}

type jumps uint64

func (j *jumps) below(bound int) int {
	x := uint64(*j)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*j = jumps(x)
	return int(x % uint64(bound))
}

// tally counts up and wakes whoever waits for a number.
type tally struct {
	mu     sync.Mutex
	count  int
	wanted int
	told   chan struct{}
}

func newTally() *tally { return &tally{told: make(chan struct{}, 1)} }

func (t *tally) add() {
	t.mu.Lock()
	t.count++
	if t.count == t.wanted {
		select {
		case t.told <- struct{}{}:
		default:
		}
	}
	t.mu.Unlock()
}

func (t *tally) reach(wanted int) {
	t.mu.Lock()
	t.wanted = wanted
	t.mu.Unlock()
	for {
		t.mu.Lock()
		done := t.count >= wanted
		t.mu.Unlock()
		if done {
			return
		}
		<-t.told
	}
}

func rate(m meter, done int) result {
	seconds, cpu := m.read()
	rss, peak := memory()
	return result{
		"time_s": seconds, "cpu_s": cpu, "per_s": float64(done) / seconds, "done": done,
		"cpu_us_each": cpu * 1e6 / float64(done), "rss_kb": rss, "peak_kb": peak,
	}
}
