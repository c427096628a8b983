package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/errs"
)

// operation is one operation of the contract.
type operation struct {
	id         string
	tag        string
	path       string
	permission auth.Permission
	stepUp     bool // a person must have proved lately who they are
	withoutMFA bool // for people who must enrol a second factor first
	openQuery  bool // others than we add parameters: unknown ones are ignored
	oauth      bool // its body is a form and its errors are OAuth's
	lookup     bool // it reads the database alone, for a known caller, and ends soon
	route      *routers.Route
	query      map[string]bool // names of its query parameters
}

// asksBrokers are reads of more than the database.
var asksBrokers = map[string]bool{"listMessages": true, "getGroupLag": true, "listTransactions": true}

// ginPath writes a path of the contract as gin does.
func ginPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}

// readOperations reads the contract: operations by method and gin path.
func readOperations() (map[string]*operation, error) {
	doc, err := openapi3.NewLoader().LoadFromData(api.SpecYAML)
	if err != nil {
		return nil, err
	}
	server := &openapi3.Server{URL: "/"}
	ops := map[string]*operation{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			permission, _ := op.Extensions["x-permission"].(string)
			if permission == "" {
				return nil, fmt.Errorf("%s %s has no x-permission", method, path)
			}
			o := &operation{id: op.OperationID, tag: op.Tags[0], path: path, permission: auth.Permission(permission), query: map[string]bool{},
				route: &routers.Route{Spec: doc, Server: server, Path: path, PathItem: item, Method: method, Operation: op}}
			o.withoutMFA, _ = op.Extensions["x-without-mfa"].(bool)
			o.openQuery, _ = op.Extensions["x-open-query"].(bool)
			o.oauth = op.RequestBody != nil && op.RequestBody.Value.Content.Get("application/x-www-form-urlencoded") != nil
			o.stepUp, _ = op.Extensions["x-step-up"].(bool)
			answer := op.Responses.Status(http.StatusOK)
			o.lookup = method == http.MethodGet && o.permission != auth.PermissionPublic && !asksBrokers[o.id] &&
				answer != nil && answer.Value.Content.Get("application/json") != nil
			for _, p := range op.Parameters {
				if p.Value.In == openapi3.ParameterInQuery {
					o.query[p.Value.Name] = true
				}
			}
			ops[method+" "+ginPath(path)] = o
		}
	}
	return ops, nil
}

// validate holds a request against the contract.
func validate(c *gin.Context, ca *call) error {
	if err := validText(c); err != nil {
		return err
	}
	var found []api.FieldError
	for name := range c.Request.URL.Query() {
		if !ca.op.query[name] && !ca.op.openQuery {
			found = append(found, api.FieldError{Field: "query." + clip(name), Code: "unknown_field", Detail: "there is no such parameter"})
		}
	}
	params := map[string]string{}
	for _, p := range c.Params {
		params[p.Key] = p.Value
	}
	err := openapi3filter.ValidateRequest(c.Request.Context(), &openapi3filter.RequestValidationInput{
		Request: c.Request, PathParams: params, Route: ca.op.route,
		Options: &openapi3filter.Options{MultiError: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	})
	if err != nil {
		found = append(found, fieldErrors("", err)...)
	}
	if len(found) == 0 {
		return nil
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Field < found[j].Field })
	if found = dedupe(found); len(found) > maxFieldErrors {
		found = found[:maxFieldErrors]
	}
	if found[0].Field == "path.ns" || strings.HasPrefix(found[0].Field, "path.") {
		// An id or name that cannot exist is as absent as any other.
		return errs.E(errs.NotFound, "%s: %s", strings.TrimPrefix(found[0].Field, "path."), found[0].Detail)
	}
	return &invalid{cause: errs.Field(found[0].Field, "%s: %s", found[0].Field, found[0].Detail), fields: found}
}

// validText refuses parameters that are no UTF-8: the contract's patterns say
// nothing of bytes, and neither JSON nor a broker can carry them.
func validText(c *gin.Context) error {
	for name, values := range c.Request.URL.Query() {
		for _, text := range append(values, name) {
			if !utf8.ValidString(text) {
				return errs.Field("query."+strings.ToValidUTF8(clip(name), "\uFFFD"), "the parameter holds bytes that are no UTF-8")
			}
		}
	}
	for _, p := range c.Params {
		if !utf8.ValidString(p.Value) {
			return errs.Field("path."+p.Key, "%s: the name holds bytes that are no UTF-8", p.Key)
		}
	}
	return nil
}

const maxFieldErrors = 50

// invalid is a request that breaks the contract, with all its faults.
type invalid struct {
	cause  *errs.Error
	fields []api.FieldError
}

func (e *invalid) Error() string { return e.cause.Error() }
func (e *invalid) Unwrap() error { return e.cause }

func dedupe(in []api.FieldError) []api.FieldError {
	out := in[:0]
	for i, f := range in {
		if i == 0 || f != in[i-1] {
			out = append(out, f)
		}
	}
	return out
}

// fieldErrors turns what the validator says into fields; prefix is the path
// so far.
func fieldErrors(prefix string, err error) []api.FieldError {
	switch e := err.(type) { //nolint:errorlint // a walk over a tree of errors, level by level
	case openapi3.MultiError:
		var out []api.FieldError
		for _, inner := range e {
			out = append(out, fieldErrors(prefix, inner)...)
		}
		return out
	case *openapi3filter.RequestError:
		if e.Parameter != nil {
			prefix = e.Parameter.In + "." + e.Parameter.Name
		} else if prefix == "" {
			prefix = "body"
		}
		if e.Err == nil {
			return []api.FieldError{{Field: prefix, Code: "format", Detail: e.Reason}}
		}
		return fieldErrors(prefix, e.Err)
	case *openapi3.SchemaError:
		return schemaErrors(prefix, e)
	case *openapi3filter.ParseError:
		return []api.FieldError{{Field: prefix, Code: "wrong_type", Detail: "the value has the wrong type or form"}}
	}
	if errors.Is(err, openapi3filter.ErrInvalidRequired) {
		return []api.FieldError{{Field: prefix, Code: "required", Detail: "it is required"}}
	}
	if errors.Is(err, openapi3filter.ErrInvalidEmptyValue) {
		return []api.FieldError{{Field: prefix, Code: "length", Detail: "it is empty"}}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return fieldErrors(prefix, inner)
	}
	return []api.FieldError{{Field: prefix, Code: "format", Detail: "it does not fit the contract"}}
}

var schemaCodes = map[string]string{
	"required": "required", "type": "wrong_type", "enum": "not_allowed", "pattern": "format", "format": "format",
	"minimum": "out_of_range", "maximum": "out_of_range", "exclusiveMinimum": "out_of_range", "exclusiveMaximum": "out_of_range",
	"minLength": "length", "maxLength": "length", "minItems": "length", "maxItems": "length", "uniqueItems": "not_unique",
	"minProperties": "length", "maxProperties": "length",
}

func schemaErrors(prefix string, e *openapi3.SchemaError) []api.FieldError {
	at := pathOf(prefix, e.JSONPointer())
	if e.SchemaField == "properties" {
		value, _ := e.Value.(map[string]any)
		var out []api.FieldError
		for name := range value {
			if _, known := e.Schema.Properties[name]; !known {
				out = append(out, api.FieldError{Field: pathOf(at, []string{clip(name)}), Code: "unknown_field", Detail: "there is no such field"})
			}
		}
		return out
	}
	code, ok := schemaCodes[e.SchemaField]
	if !ok {
		code = "format"
	}
	detail := e.Reason
	if code == "required" {
		detail = "it is required"
	}
	if code == "format" && e.Schema != nil && e.Schema.Description != "" {
		detail += " (" + e.Schema.Description + ")"
	}
	return []api.FieldError{{Field: at, Code: code, Detail: detail}}
}

// pathOf appends a JSON pointer to a path: names by dots, numbers in
// brackets. The path of a body has no prefix.
func pathOf(prefix string, pointer []string) string {
	out := prefix
	if out == "body" && len(pointer) > 0 {
		out = ""
	}
	for _, p := range pointer {
		if _, err := strconv.Atoi(p); err == nil {
			out += "[" + p + "]"
		} else if out == "" {
			out = p
		} else {
			out += "." + p
		}
	}
	return out
}

// badBody is an error of the generated decoder: something that the contract
// lets pass and Go's types do not.
func badBody(err error) error {
	e := errs.Field("body", "the request cannot be decoded").WithReason("body_undecodable")
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		e = errs.Field(typeErr.Field, "%s: a %s does not fit", typeErr.Field, typeErr.Value).WithReason("body_undecodable")
	}
	e.Err = err
	return e
}
