package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	dataschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	tfprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/sluicemq/sluice/terraform/provider"
)

// attribute is what the schemas of providers, resources and data sources have
// in common.
type attribute interface {
	GetMarkdownDescription() string
	GetDescription() string
	GetType() attr.Type
	IsRequired() bool
	IsOptional() bool
	IsComputed() bool
	IsSensitive() bool
}

// render returns the pages by their path under docs.
func render(ctx context.Context, examples fs.FS) (map[string]string, error) {
	p := provider.New("docs")
	pages := map[string]string{}
	var own tfprovider.SchemaResponse
	p.Schema(ctx, tfprovider.SchemaRequest{}, &own)
	d := document{examples: examples}
	d.title("sluice", "provider", "sluice provider", own.Schema.MarkdownDescription)
	d.example("Example", "provider/provider.tf")
	d.example("Without a secret", "provider/workload-identity.sh")
	d.example("Quick start", "quick-start/main.tf")
	d.attributes(spread(own.Schema.Attributes))
	pages["index.md"] = d.text.String()
	err := d.err

	for _, make := range p.Resources(ctx) {
		r := make()
		var name resource.MetadataResponse
		r.Metadata(ctx, resource.MetadataRequest{}, &name)
		var s resource.SchemaResponse
		r.Schema(ctx, resource.SchemaRequest{}, &s)
		d := document{examples: examples}
		d.title(name.TypeName, "resource", name.TypeName+" (resource)", s.Schema.MarkdownDescription)
		d.example("Example", "resources/"+name.TypeName+"/resource.tf")
		d.attributes(spread(s.Schema.Attributes))
		d.example("Import", "resources/"+name.TypeName+"/import.sh")
		pages["resources/"+short(name.TypeName)+".md"] = d.text.String()
		err = errors.Join(err, d.err)
	}
	for _, make := range p.DataSources(ctx) {
		s := make()
		var name datasource.MetadataResponse
		s.Metadata(ctx, datasource.MetadataRequest{}, &name)
		var got datasource.SchemaResponse
		s.Schema(ctx, datasource.SchemaRequest{}, &got)
		d := document{examples: examples}
		d.title(name.TypeName, "data source", name.TypeName+" (data source)", got.Schema.MarkdownDescription)
		d.example("Example", "data-sources/"+name.TypeName+"/data-source.tf")
		d.attributes(spread(got.Schema.Attributes))
		pages["data-sources/"+short(name.TypeName)+".md"] = d.text.String()
		err = errors.Join(err, d.err)
	}
	return pages, err
}

func short(typeName string) string { return strings.TrimPrefix(typeName, "sluice_") }

func spread[A attribute](in map[string]A) map[string]attribute {
	out := make(map[string]attribute, len(in))
	for name, a := range in {
		out[name] = a
	}
	return out
}

// document is a page being written; the first error stays.
type document struct {
	examples fs.FS
	text     strings.Builder
	err      error
}

func (d *document) title(page, kind, heading, description string) {
	fmt.Fprintf(&d.text, "---\npage_title: %q\ndescription: |-\n  %s\n---\n\n# %s\n\n%s\n", page+" "+kind, description, heading, description)
}

func (d *document) example(heading, path string) {
	text, err := fs.ReadFile(d.examples, path)
	if err != nil {
		d.err = errors.Join(d.err, err)
		return
	}
	language := "terraform"
	if strings.HasSuffix(path, ".sh") {
		language = "shell"
	}
	fmt.Fprintf(&d.text, "\n## %s\n\n```%s\n%s\n```\n", heading, language, strings.TrimRight(string(text), "\n"))
}

// attributes writes the arguments first, required ones before optional ones,
// and then what is only read; nested attributes follow at the end.
func (d *document) attributes(all map[string]attribute) {
	for _, part := range []struct {
		heading string
		holds   func(attribute) bool
	}{
		{"Required", func(a attribute) bool { return a.IsRequired() }},
		{"Optional", func(a attribute) bool { return a.IsOptional() }},
		{"Read-only", func(a attribute) bool { return a.IsComputed() && !a.IsOptional() }},
	} {
		var lines []string
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if a := all[name]; part.holds(a) {
				lines = append(lines, line(name, a))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&d.text, "\n## %s\n\n%s\n", part.heading, strings.Join(lines, "\n"))
		}
	}
	d.nested(all)
}

// nested writes what is inside attributes, and inside that.
func (d *document) nested(all map[string]attribute) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if inner := nested(all[name]); inner != nil {
			fmt.Fprintf(&d.text, "\n### %s\n\n", name)
			for _, child := range slices.Sorted(maps.Keys(inner)) {
				fmt.Fprintln(&d.text, line(child, inner[child]))
			}
			d.nested(inner)
		}
	}
}

func line(name string, a attribute) string {
	notes := typeName(a.GetType())
	switch {
	case a.IsRequired():
		notes += ", required"
	case a.IsOptional():
		notes += ", optional"
	}
	if a.IsSensitive() {
		notes += ", sensitive"
	}
	if w, ok := a.(interface{ IsWriteOnly() bool }); ok && w.IsWriteOnly() {
		notes += ", write-only"
	}
	text := a.GetMarkdownDescription()
	if text == "" {
		text = a.GetDescription() // attributes of other modules have plain ones
	}
	if nested(a) != nil {
		text = strings.TrimSpace(text + " See [" + name + "](#" + name + ").")
	}
	return fmt.Sprintf("- `%s` (%s) %s", name, notes, text)
}

func nested(a attribute) map[string]attribute {
	switch a := a.(type) {
	case schema.SingleNestedAttribute:
		return spread(a.Attributes)
	case schema.ListNestedAttribute:
		return spread(a.NestedObject.Attributes)
	case schema.MapNestedAttribute:
		return spread(a.NestedObject.Attributes)
	case dataschema.MapNestedAttribute:
		return spread(a.NestedObject.Attributes)
	case dataschema.SingleNestedAttribute:
		return spread(a.Attributes)
	case dataschema.ListNestedAttribute:
		return spread(a.NestedObject.Attributes)
	}
	return nil
}

func typeName(t attr.Type) string {
	switch t := t.(type) {
	case basetypes.BoolTypable:
		return "bool"
	case basetypes.Int64Typable:
		return "number"
	case basetypes.ListType:
		return "list of " + typeName(t.ElemType)
	case basetypes.SetType:
		return "set of " + typeName(t.ElemType)
	case basetypes.MapType:
		return "map of " + typeName(t.ElemType)
	case basetypes.ObjectTypable:
		return "object"
	case basetypes.StringTypable:
		return strings.TrimPrefix(nameOf(t), "sluice.")
	}
	return nameOf(t)
}

// nameOf is the word for a kind of text: string, duration or timestamp.
func nameOf(t attr.Type) string {
	if name := t.String(); strings.HasPrefix(name, "sluice.") {
		return name
	}
	return "string"
}
