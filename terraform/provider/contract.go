package provider

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/sluicemq/sluice/controlplane/api"
)

// property is what the HTTP contract says of one value: the part of an
// OpenAPI schema that the provider turns into validators and documentation.
type property struct {
	Ref           string               `json:"$ref"`
	Description   string               `json:"description"`
	Pattern       string               `json:"pattern"`
	Enum          []string             `json:"enum"`
	Default       json.RawMessage      `json:"default"`
	Minimum       *int64               `json:"minimum"`
	Maximum       *int64               `json:"maximum"`
	MinLength     *int                 `json:"minLength"`
	MaxLength     *int                 `json:"maxLength"`
	MinItems      *int                 `json:"minItems"`
	MaxItems      *int                 `json:"maxItems"`
	MaxProperties *int                 `json:"maxProperties"`
	Properties    map[string]*property `json:"properties"`
	Items         *property            `json:"items"`
	Values        json.RawMessage      `json:"additionalProperties"`
}

// schemas reads the contract once. Limits live in openapi.yaml only, so the
// provider never refuses what the server would take.
var schemas = sync.OnceValue(func() map[string]*property {
	raw, err := api.GetSpecJSON()
	if err != nil {
		panic(fmt.Sprintf("read the HTTP contract: %v", err))
	}
	var document struct {
		Components struct {
			Schemas map[string]*property `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		panic(fmt.Sprintf("decode the HTTP contract: %v", err))
	}
	return document.Components.Schemas
})

// contract returns the property of a named schema, or the schema itself when
// field is empty. A name that the contract lacks is a bug of this package.
func contract(schema, field string) *property {
	found, ok := schemas()[schema]
	if ok && field != "" {
		found, ok = found.Properties[field]
	}
	if !ok {
		panic(fmt.Sprintf("the HTTP contract has no %s.%s", schema, field))
	}
	return found.resolved()
}

func (p *property) resolved() *property {
	for p.Ref != "" {
		p = contract(strings.TrimPrefix(p.Ref, "#/components/schemas/"), "")
	}
	return p
}

func (p *property) intDefault() int64 {
	var n int64
	if err := json.Unmarshal(p.Default, &n); err != nil {
		panic(fmt.Sprintf("default of %q: %v", p.Description, err))
	}
	return n
}

func (p *property) boolDefault() bool {
	var b bool
	if err := json.Unmarshal(p.Default, &b); err != nil {
		panic(fmt.Sprintf("default of %q: %v", p.Description, err))
	}
	return b
}

func (p *property) strings() []validator.String {
	var out []validator.String
	if len(p.Enum) > 0 {
		out = append(out, stringvalidator.OneOf(p.Enum...))
	}
	if p.MinLength != nil && *p.MinLength > 0 {
		out = append(out, stringvalidator.UTF8LengthAtLeast(*p.MinLength))
	}
	if p.MaxLength != nil {
		out = append(out, stringvalidator.UTF8LengthAtMost(*p.MaxLength))
	}
	if p.Pattern != "" {
		out = append(out, stringvalidator.RegexMatches(regexp.MustCompile(p.Pattern), "value must match "+p.Pattern))
	}
	return out
}

func (p *property) ints() []validator.Int64 {
	var out []validator.Int64
	if p.Minimum != nil {
		out = append(out, int64validator.AtLeast(*p.Minimum))
	}
	if p.Maximum != nil {
		out = append(out, int64validator.AtMost(*p.Maximum))
	}
	return out
}

func (p *property) sets() []validator.Set {
	out := []validator.Set{setvalidator.ValueStringsAre(p.Items.resolved().strings()...)}
	if p.MinItems != nil {
		out = append(out, setvalidator.SizeAtLeast(*p.MinItems))
	}
	if p.MaxItems != nil {
		out = append(out, setvalidator.SizeAtMost(*p.MaxItems))
	}
	return out
}

func (p *property) lists() []validator.List {
	var out []validator.List
	if p.MinItems != nil {
		out = append(out, listvalidator.SizeAtLeast(*p.MinItems))
	}
	if p.MaxItems != nil {
		out = append(out, listvalidator.SizeAtMost(*p.MaxItems))
	}
	return out
}

func (p *property) maps() []validator.Map {
	var out []validator.Map
	if p.MaxProperties != nil {
		out = append(out, mapvalidator.SizeAtMost(*p.MaxProperties))
	}
	var values property
	if len(p.Values) > 0 && json.Unmarshal(p.Values, &values) == nil {
		out = append(out, mapvalidator.ValueStringsAre(values.resolved().strings()...))
	}
	return out
}
