package cases

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that ACCESS.md names are there.
func TestAccess_namesTestsThatThereAre(t *testing.T) {
	const root = "../.."
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	there := map[string]bool{}
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "node_modules" || strings.HasPrefix(name, ".") && path != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	}))
	text, err := os.ReadFile("ACCESS.md")
	must(t, err)
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(text, -1)
	for _, m := range named {
		if !there[string(m[1])] {
			t.Errorf("no test is called %s", m[1])
		}
	}
	if len(named) < 40 {
		t.Errorf("only %d names", len(named))
	}
}
