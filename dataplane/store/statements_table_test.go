package store

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// STATEMENTS.md has 63 rows in order, and every test that it names is there.
func TestStatements_testsAreThere(t *testing.T) {
	text, err := os.ReadFile("../STATEMENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	row, name := regexp.MustCompile(`(?m)^\| (\d+) \| .+ \| (.+) \|$`), regexp.MustCompile("`([a-z/]+): (Test\\w+)`")
	rows := row.FindAllStringSubmatch(string(text), -1)
	if len(rows) != 63 {
		t.Errorf("%d rows", len(rows))
	}
	sources := map[string]string{} // of the tests of each package
	named := 0
	for i, r := range rows {
		if r[1] != strconv.Itoa(i+1) {
			t.Errorf("row %s comes as number %d", r[1], i+1)
		}
		for _, n := range name.FindAllStringSubmatch(r[2], -1) {
			named++
			if _, ok := sources[n[1]]; !ok {
				sources[n[1]] = testSources(t, n[1])
			}
			if !strings.Contains(sources[n[1]], "\nfunc "+n[2]+"(") {
				t.Errorf("row %s: package %s has no test %s", r[1], n[1], n[2])
			}
		}
		// A name without its package would not be looked for.
		if got, want := strings.Count(r[2], "Test"), len(name.FindAllString(r[2], -1)); got != want {
			t.Errorf("row %s: %d tests are named, %d of them with a package: %s", r[1], got, want, r[2])
		}
	}
	if named < 60 {
		t.Errorf("only %d tests are named", named)
	}
}

func testSources(t *testing.T, pkg string) string {
	t.Helper()
	dir := filepath.Join("..", pkg)
	if strings.HasPrefix(pkg, "internal/") {
		dir = filepath.Join("..", "..", pkg)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
