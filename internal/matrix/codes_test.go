package matrix

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// requestCodes reads the table of request codes from its source.
func requestCodes(t *testing.T) map[string]int32 {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../dataplane/wire/codes.go", nil, parser.ParseComments)
	check(t, err)
	codes := map[string]int32{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST || !strings.HasPrefix(g.Doc.Text(), "Request codes.") {
			continue
		}
		for _, spec := range g.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
				t.Fatalf("a request code that is not `Name int32 = number`: %v", spec)
			}
			n, err := strconv.ParseInt(v.Values[0].(*ast.BasicLit).Value, 10, 32)
			check(t, err)
			codes[v.Names[0].Name] = int32(n)
		}
	}
	if len(codes) < 60 {
		t.Fatalf("%d request codes in the table", len(codes))
	}
	return codes
}
