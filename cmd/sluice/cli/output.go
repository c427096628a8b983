package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"go.yaml.in/yaml/v3"
)

const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
)

func knownOutput(form string) bool {
	switch form {
	case "", outputTable, outputJSON, outputYAML, outputName:
		return true
	}
	return false
}

// form is the output form in effect: a table only where a person reads.
func (a *app) form() string {
	switch {
	case a.output != "":
		return a.output
	case a.OutTerminal:
		return outputTable
	default:
		return outputJSON
	}
}

// column is one column of a table, or one line of a single object.
type column[T any] struct {
	title string
	value func(T) string
	// detail columns are left out of tables with many rows.
	detail bool
}

// view says how objects of one kind look.
type view[T any] struct {
	name    func(T) string
	columns []column[T]
}

// showList writes items in the form asked for. JSON and YAML have the shape
// of a list of the API, with all pages in one.
func showList[T any](a *app, v view[T], items []T) error {
	switch a.form() {
	case outputName:
		for _, item := range items {
			fmt.Fprintln(a.Out, v.name(item))
		}
		return nil
	case outputTable:
		var columns []column[T]
		for _, c := range v.columns {
			if !c.detail {
				columns = append(columns, c)
			}
		}
		table := make([][]string, 0, len(items)+1)
		titles := make([]string, len(columns))
		for i, c := range columns {
			titles[i] = strings.ToUpper(strings.ReplaceAll(c.title, "_", " "))
		}
		table = append(table, titles)
		for _, item := range items {
			row := make([]string, len(columns))
			for i, c := range columns {
				row[i] = orDash(c.value(item))
			}
			table = append(table, row)
		}
		return a.table(table)
	}
	if items == nil {
		items = []T{}
	}
	return a.encode(struct {
		Items []T `json:"items"`
	}{items})
}

// showOne writes one object; a table becomes one line for each field.
func showOne[T any](a *app, v view[T], item T) error {
	switch a.form() {
	case outputName:
		fmt.Fprintln(a.Out, v.name(item))
		return nil
	case outputTable:
		w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
		for _, c := range v.columns {
			fmt.Fprintf(w, "%s\t%s\n", c.title, orDash(c.value(item)))
		}
		return w.Flush()
	}
	return a.encode(item)
}

// table writes rows with the first one as titles.
func (a *app) table(rows [][]string) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, " ")
		if i == 0 && a.colour() {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		fmt.Fprintln(a.Out, line)
	}
	return nil
}

func (a *app) colour() bool {
	return a.OutTerminal && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

// encode writes JSON or YAML.
func (a *app) encode(v any) error { return Encode(a.Out, a.form() == outputYAML, v) }

// Encode writes v as JSON or YAML; YAML is made from the JSON, so that both
// have the names of the contract.
func Encode(out io.Writer, asYAML bool, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if asYAML {
		if text, err = toYAML(text); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}

// toYAML keeps the order of the fields: JSON is YAML, so it is read as a tree
// of nodes and written in block style.
func toYAML(text []byte) ([]byte, error) {
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	plain(&tree)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&tree); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

func plain(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		n.Style = 0
	} else if n.Style == yaml.DoubleQuotedStyle {
		// The encoder quotes by itself what would not be read as a string.
		n.Style = 0
	}
	for _, child := range n.Content {
		plain(child)
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func deref[T ~string](p *T) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

func number[T ~int32 | ~int64](n T) string { return fmt.Sprint(int64(n)) }

// limit shows 0 as what it means.
func limit(n int32) string {
	if n == 0 {
		return "no limit"
	}
	return number(n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// encodeLine writes v as one line of JSON.
func (a *app) encodeLine(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s\n", text)
	return err
}
