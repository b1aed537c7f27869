// Writes what Go's regexp package says about generated patterns, and the names
// of Unicode groups it knows. `cargo xtask go-patterns` runs it.
//
//	go run main.go PATTERNS GROUPS
//
// PATTERNS gets one JSON object per line: first the texts, then each pattern
// with its error or with the first match in each text (start, end, or null).
// GROUPS gets one line per name: the name in lower case, a tab, and what the
// `regex` crate calls the group (empty: a group without any character).
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const count = 1000

var texts = []string{
	"", "a", "A", "-", ".", "z", "ab", "a-b", "a.b-c_d 09", "[x]", "a]", "^$", "{2}", "a{,2}",
	"\n", "a\nb", "é", "Éé", "ß", "ſK", "αβ", "٣", "::alpha", "&&", "~~--", "\t\v\f", "\x00", "\\E",
	"aaaa", "bab", "0x41", "Zz_9", "#comment", "日本",
}

// Patterns of real definitions, and those whose meaning differs between engines.
var chosen = []string{
	"[0-9a-zA-Z-.]", "[\\w-.]", "[\\s-z]", "[\\d-]", "[-a]", "[a-]", "[a-c-e]", "[--a]", "[+--]",
	"[]a]", "[^]a]", "[]", "[^]", "[[]", "[[:alpha:]-z]", "[z-a]", "[a-\\d]", "[\\d-z]",
	"[[:foo:]]", "[[:^alpha:]]", "[[:^^alpha:]]", "[[:alpha]", "[:alpha:]", "[a&&b]", "[a~~b]",
	"[a--b]", "[[a]b]", "[\\]]", "[\\-]", "[\\b]", "[\\Q]", "[\\", "[a", "[a-", "\\", "\\C", "\\Z",
	"\\1", "\\12", "\\0", "\\08", "\\x4", "\\x41", "\\x{41}", "\\x{}", "\\x{110000}", "\\x{d800}",
	"[\\x{d7ff}-\\x{e000}]", "[\\x{d800}-\\x{dfff}]", "\\p", "\\pL", "\\p{L}", "\\p{^L}", "\\P{^L}",
	"\\p{Greek}", "\\p{greek}", "\\p{Foo}", "\\p{script=Greek}", "\\p{Letter}", "\\p{Cs}", "\\p{",
	"[\\p{Lu}-z]", "(?i)\\p{Lu}", "(?i)[^k]", "(?i)\\W", "(?i)\\w", "(?i)[[:^word:]]",
	"(", ")", "()", "(?)", "(?i)", "(?ii)a", "(?i-i)a", "(?-)a", "(?i-)a", "(?-i-s)a", "(?", "(?i",
	"(?P<n>a)", "(?<n>a)", "(?P<n>a)(?P<n>b)", "(?P<>a)", "(?P<n", "(?P<", "(?P=n)", "(?=a)",
	"(?!a)", "(?<=a)", "(?<!a)", "(?#c)", "(?x)a b", "(?U)a+", "(?U)a+?", "(?s).", "(?m)^b",
	"a**", "a*+", "a*??", "*", "+a", "|*", "(*)", "^*", "$+", "\\b+", "a(?i)*", "a*(?i)*", "a*(?i)?",
	"a{2}{3}", "a{2}(?i){3}", "(a{100}){11}", "(a{10}){100}", "((a{10}){10}){11}", "(a{0}){1000}",
	"a{1001}", "a{2,1}", "a{,2}", "a{02}", "a{2", "a{2,", "a{99999999999}", "a{1,99999999999}",
	"{2}", "{", "}", "a{0}", "a{0,}", "a{-1}", "\\Qa.b\\E*", "\\Q\\E*", "a\\Q\\E*", "\\Qa", "\\E",
	"\\_", "\\<", "\\>", "\\é", "\\ ", "\\#", "\\\n", "a|b|", "|a", "(|a)*b", "(a|)+b",
	"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
	"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
	"^https?:\\/\\/[^\\s/$.?#].[^\\s]*$", "^\\d{1,3}(\\.\\d{1,3}){3}$", "^[^\\x00-\\x1F\\x7F]*$",
}

var tokens = []string{
	"a", "b", "z", "A", "0", "9", "-", ".", "[", "]", "^", "$", "(", ")", "(?:", "(?i)", "(?-s:",
	"(?im)", "(?P<n>", "*", "+", "?", "{2}", "{2,}", "{,2}", "{1,3}?", "{", "}", "\\d", "\\D",
	"\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "\\A", "\\z", "\\pL", "\\PN", "\\p{Greek}",
	"[:alpha:]", "[:", ":]", "\\-", "\\.", "\\]", "\\x41", "\\x{e9}", "\\0", "\\12", "\\7", "\\n",
	"|", "é", "α", "&&", "--", "~~", " ", "#", "\\Q", "\\E", "_", "\\_", "\\k", "k", "s",
}

var items = []string{
	"a", "z", "-", "-", "-", "0", "9", ".", "a-c", "0-9", "A-Z", "z-a", "\\w", "\\d", "\\s", "\\W",
	"\\D", "\\S", "\\pL", "\\P{Lu}", "[:alpha:]", "[:^digit:]", "[:punct:]", "[", "]", "^", "&&",
	"--", "~~", "\\-", "\\]", "\\\\", "\\x41", "\\x41-\\x5a", "\\n", "\\t-\\r", "é", "α-ω", "\\0",
	"\\b", "\\12", "_", " ", "#", ":", "[:", "+--", "k", "s", "\\Q",
}

func generated(random *rand.Rand) string {
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	var b strings.Builder
	if random.IntN(3) == 0 {
		b.WriteString("(?i)")
	}
	for range 1 + random.IntN(4) {
		if random.IntN(2) == 0 {
			b.WriteString(pick(tokens))
			continue
		}
		b.WriteString("[")
		if random.IntN(4) == 0 {
			b.WriteString("^")
		}
		for range 1 + random.IntN(4) {
			b.WriteString(pick(items))
		}
		b.WriteString("]")
		if random.IntN(3) == 0 {
			b.WriteString(pick([]string{"*", "+", "?", "{2}", "+?"}))
		}
	}
	return b.String()
}

func patterns(path string) {
	random := rand.New(rand.NewPCG(1, 2))
	all := slices.Clone(chosen)
	for len(all) < count {
		all = append(all, generated(random))
	}
	write(path, func(out *bufio.Writer) {
		line := func(value any) {
			text, err := json.Marshal(value)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Fprintf(out, "%s\n", text)
		}
		line(map[string]any{"texts": texts})
		known := map[string]bool{}
		for _, pattern := range all {
			if known[pattern] {
				continue
			}
			known[pattern] = true
			compiled, err := regexp.Compile(pattern)
			if err != nil {
				line(map[string]any{"pattern": pattern, "error": err.Error()})
				continue
			}
			found := [][]int{}
			for _, text := range texts {
				found = append(found, compiled.FindStringIndex(text))
			}
			line(map[string]any{"pattern": pattern, "found": found})
		}
	})
}

func groups(path string) {
	names := map[string]string{"any": "Any", "assigned": "Assigned", "ascii": "ASCII"}
	fold := func(name string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
	}
	add := func(name, group string) {
		if _, err := regexp.Compile("\\p{" + name + "}"); err == nil {
			names[fold(name)] = group
		}
	}
	for name := range unicode.Scripts {
		add(name, "sc="+name)
	}
	for name := range unicode.Categories {
		add(name, "gc="+name)
	}
	for name, category := range unicode.CategoryAliases {
		add(name, "gc="+category)
	}
	for name, group := range names {
		if group == "gc=Cs" {
			names[name] = ""
		}
	}
	keys := []string{}
	for name := range names {
		keys = append(keys, name)
	}
	slices.Sort(keys)
	write(path, func(out *bufio.Writer) {
		for _, name := range keys {
			fmt.Fprintf(out, "%s\t%s\n", name, names[name])
		}
	})
}

func write(path string, fill func(*bufio.Writer)) {
	file, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	out := bufio.NewWriter(file)
	fill(out)
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: go run main.go PATTERNS GROUPS")
	}
	patterns(os.Args[1])
	groups(os.Args[2])
}
