package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/controlplane/controldb"
)

// mutation is a body that the contract does not allow, for one reason.
type mutation struct {
	what  string
	field string // that the problem must name
	body  any
}

// bodyOf returns the schema and the example of an operation's JSON body; nil
// when it has none.
func bodyOf(op *operation) (*openapi3.Schema, map[string]any) {
	b := op.route.Operation.RequestBody
	if b == nil {
		return nil, nil
	}
	media := b.Value.Content.Get("application/json")
	if media == nil {
		return nil, nil
	}
	example, _ := clone(media.Schema.Value.Example).(map[string]any)
	if example == nil {
		example = map[string]any{}
	}
	return media.Schema.Value, example
}

// clone copies a JSON value.
func clone(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// with returns a copy of body in which the value at a path is another; absent
// removes it.
func with(body any, path []any, value any) any {
	out := clone(body)
	at := out
	for i, step := range path {
		last := i == len(path)-1
		switch step := step.(type) {
		case string:
			m := at.(map[string]any)
			if last && value == absent {
				delete(m, step)
			} else if last {
				m[step] = value
			} else {
				at = m[step]
			}
		case int:
			list := at.([]any)
			if last {
				list[step] = value
			} else {
				at = list[step]
			}
		}
	}
	return out
}

type absence struct{}

var absent = absence{}

func dotted(path []any) string {
	out := ""
	for _, step := range path {
		switch step := step.(type) {
		case int:
			out += fmt.Sprintf("[%d]", step)
		case string:
			if out != "" {
				out += "."
			}
			out += step
		}
	}
	return out
}

// owned are fields of objects that nobody but Sluice sets.
var owned = []string{"tenant_id", "plan", "role", "revision", "secret", "state", "id", "created_at", "created_by", "permission", "permissions", "owner", "is_admin", "verified", "status", "__proto__"}

// broken walks a schema beside its example and returns a body for each way to
// break each field.
func broken(schema *openapi3.Schema, body any, path []any, at any) (out []mutation) {
	add := func(what string, p []any, value any) {
		out = append(out, mutation{what, dotted(p), with(body, p, value)})
	}
	fields, _ := at.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		s, p := schema.Properties[name].Value, append(slices.Clone(path), name)
		if slices.Contains(schema.Required, name) {
			add("missing", p, absent)
		}
		out = append(out, brokenValue(s, body, p)...)
		switch value := fields[name].(type) {
		case map[string]any:
			out = append(out, broken(s, body, p, value)...)
		case []any:
			if len(value) > 0 && s.Items != nil {
				p := append(slices.Clone(p), 0)
				out = append(out, brokenValue(s.Items.Value, body, p)...)
				out = append(out, broken(s.Items.Value, body, p, value[0])...)
			}
		}
	}
	return out
}

func brokenValue(s *openapi3.Schema, body any, p []any) (out []mutation) {
	add := func(what string, value any) {
		out = append(out, mutation{what, dotted(p), with(body, p, value)})
	}
	if !s.Nullable {
		add("null", nil)
	}
	for kind, wrong := range map[string][]any{"string": {7, true, []any{}, map[string]any{}}, "integer": {"7x", 1.5, []any{}, 1e30}, "number": {"7x", []any{}}, "boolean": {"maybe", 1}, "array": {"x", map[string]any{}}, "object": {"x", []any{}, 7}} {
		if s.Type.Is(kind) {
			for _, w := range wrong {
				add(fmt.Sprintf("%T for %s", w, kind), w)
			}
		}
	}
	if s.MaxLength != nil && s.Type.Is("string") {
		add("too long", strings.Repeat("a", int(*s.MaxLength)+1))
	}
	if s.Type.Is("string") && len(s.Enum) > 0 {
		add("no such value", "no_such_value")
		add("look-alike", fmt.Sprint(s.Enum[0])+"\u200b") // a space without width
	}
	if s.Max != nil {
		add("too great", *s.Max+1)
	}
	if s.Min != nil {
		add("too small", *s.Min-1)
	}
	if s.MaxItems != nil && *s.MaxItems < 2000 {
		add("too many", slices.Repeat([]any{"a"}, int(*s.MaxItems)+1))
	}
	return out
}

// massAssigned are bodies with a field that is Sluice's own.
func massAssigned(schema *openapi3.Schema, example map[string]any) (out []mutation) {
	if schema.AdditionalProperties.Has == nil || *schema.AdditionalProperties.Has {
		return nil
	}
	for _, name := range owned {
		if schema.Properties[name] == nil {
			out = append(out, mutation{"mass assignment", name, with(example, []any{name}, "ten_x")})
		}
	}
	return out
}

// hostile are texts that a field may refuse or keep, and that break nothing.
var hostile = []string{"", "\x00", "a\x00b", "a\r\nX-Injected: 1", "\x1b[2J", "' OR '1'='1", `"; DROP TABLE tenants; --`, "../../etc/passwd", "%2e%2e%2f", `..\..\`, "\u0430dmin", "\u202Eevil",
	"\uFFFD", "\U0001F4A9", "e\u0301", "\u200b", "${jndi:ldap://x}", "{{7*7}}", "<script>alert(1)</script>", "-1", "NaN", "1e999", strings.Repeat("\u0438", 64), "*", "a%b", "a%25RETRY%25b", "\ud7ff"}

// texts are bodies with a hostile text in each field that takes text.
func texts(schema *openapi3.Schema, body any, path []any, at any) (out []mutation) {
	fields, _ := at.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		s, p := schema.Properties[name].Value, append(slices.Clone(path), name)
		if s.Type.Is("string") {
			for _, text := range hostile {
				out = append(out, mutation{fmt.Sprintf("text %q", text), dotted(p), with(body, p, text)})
			}
		}
		switch value := fields[name].(type) {
		case map[string]any:
			out = append(out, texts(s, body, p, value)...)
		case []any:
			if len(value) > 0 && s.Items != nil && s.Items.Value.Type.Is("string") {
				for _, text := range hostile {
					out = append(out, mutation{fmt.Sprintf("text %q", text), dotted(p), with(body, append(slices.Clone(p), 0), text)})
				}
			}
		}
	}
	return out
}

// idPrefix is what ids of one kind begin with, in their pattern.
var idPrefix = regexp.MustCompile(`[a-z]+_`)

// called is the path of an operation about a tenant's things, with the
// parameters that it cannot do without; an id of a kind that nobody made has the
// right form.
func (th things) called(op *operation, q url.Values) string {
	path := th.path(op.path)
	for _, p := range op.route.Operation.Parameters {
		if p.Value.In == "path" && p.Value.Name == "id" && strings.Contains(path+"/", "/x/") {
			if prefix := idPrefix.FindString(p.Value.Schema.Value.Pattern); prefix != "" {
				path = strings.Replace(path+"/", "/x/", "/"+prefix+strings.Repeat("0", 26)+"/", 1)
				path = strings.TrimSuffix(path, "/")
			}
		}
	}
	query := map[string]url.Values{"getClientConfig": {"language": {"go"}}, "listAccess": {"resource": {"topic"}, "name": {"things"}}}[op.id]
	if query == nil {
		query = url.Values{}
	}
	maps.Copy(query, q)
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// answerOf sends a request of the owner by hand.
func (s *system) answerOf(p person, method, path string, body any, headers ...string) (int, string) {
	s.t.Helper()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		check(s.t, err)
		in = strings.NewReader(string(text))
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, in)
	check(s.t, err)
	bearer(p.AccessToken)(req)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	check(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(s.t, err)
	return resp.StatusCode, string(text)
}

// problemIn is the code and the field of an answer.
func problemIn(text string) (code, field string) {
	var p struct{ Code, Field string }
	_ = json.Unmarshal([]byte(text), &p)
	return p.Code, p.Field
}

// inOrder are the operations by name, so that a failing run can be repeated.
func (s *system) inOrder() []*operation {
	return slices.SortedFunc(maps.Values(s.srv.ops), func(a, b *operation) int { return strings.Compare(a.id, b.id) })
}

// state is all that a tenant's owner sees, and where its changes stand.
func (s *system) state(p person, th things) map[string]string {
	out := s.everything(p, th)
	d, err := s.source.Desired(s.t.Context())
	check(s.t, err)
	out["changes"] = fmt.Sprint(d.Sequence)
	for path := range out { // refusals of rights are noted there
		if strings.HasPrefix(path, "/v1/audit") {
			delete(out, path)
		}
	}
	return out
}

func (s *system) unchanged(before, after map[string]string) {
	s.t.Helper()
	for path, text := range before {
		if after[path] != text {
			s.t.Errorf("%s was\n%.500s\nand is\n%.500s", path, text, after[path])
		}
	}
	if len(before) < 15 {
		s.t.Errorf("only %d things looked at", len(before))
	}
}

// refused holds an answer to bad input against what all of them must be.
func (s *system) refused(op *operation, m mutation, status int, text string) {
	s.t.Helper()
	code, field := problemIn(text)
	if status != http.StatusBadRequest || code == "" || field != m.field {
		s.t.Errorf("%s, %s %s: got %d %s %q, want 400 and the field; %.300s", op.id, m.field, m.what, status, code, field, text)
	}
}

// Every field of every body, broken in every way that the contract forbids: a
// problem that names the field, and nothing changed.
func TestBadInput_everyFieldOfEveryBody(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		before, n := s.state(p, own), 0
		for _, op := range s.inOrder() {
			schema, example := bodyOf(op)
			if schema == nil {
				continue
			}
			for _, m := range broken(schema, example, nil, example) {
				n++
				status, text := s.answerOf(p, op.route.Method, own.called(op, nil), m.body)
				s.refused(op, m, status, text)
			}
			for _, whole := range []any{[]any{}, "x", 7, true} {
				n++
				status, text := s.answerOf(p, op.route.Method, own.called(op, nil), whole)
				s.refused(op, mutation{fmt.Sprintf("%T", whole), "body", whole}, status, text)
			}
		}
		s.unchanged(before, s.state(p, own))
		t.Logf("%d bodies", n)
		if n < 1300 {
			t.Errorf("only %d bodies", n)
		}
	})
}

// OWASP API3: no body sets what is Sluice's own, and a refused one changes
// nothing.
func TestOWASP_API3_massAssignment(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		before, n := s.state(p, own), 0
		for _, op := range s.inOrder() {
			schema, example := bodyOf(op)
			if schema == nil {
				continue
			}
			if schema.AdditionalProperties.Has == nil || *schema.AdditionalProperties.Has {
				t.Errorf("%s takes fields that the contract does not name", op.id)
			}
			for _, m := range massAssigned(schema, example) {
				n++
				status, text := s.answerOf(p, op.route.Method, own.called(op, nil), m.body)
				s.refused(op, m, status, text)
				if !strings.Contains(text, `"unknown_field"`) {
					t.Errorf("%s, %s: %.300s", op.id, m.field, text)
				}
			}
		}
		s.unchanged(before, s.state(p, own))
		t.Logf("%d bodies", n)
		if n < 500 {
			t.Errorf("only %d bodies", n)
		}
	})
}

// Hostile texts in every field that takes text: kept as they are or refused
// with the reason, and never the server's fault.
func TestBadInput_hostileTexts(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		n := map[int]int{}
		for _, op := range s.inOrder() {
			schema, example := bodyOf(op)
			if schema == nil || slices.Contains(ends, op.id) {
				continue
			}
			path := own.called(op, nil)
			if op.query["dry_run"] {
				path = own.called(op, url.Values{"dry_run": {"true"}})
			}
			for _, m := range texts(schema, example, nil, example) {
				status, text := s.answerOf(p, op.route.Method, path, m.body)
				n[status]++
				code, field := problemIn(text)
				switch {
				case status >= 500 && op.tag != "billing":
					t.Errorf("%s, %s %s: %d %.300s", op.id, m.field, m.what, status, text)
				case status == http.StatusBadRequest && field == "", status >= 400 && code == "":
					t.Errorf("%s, %s %s: %d without code or field: %.300s", op.id, m.field, m.what, status, text)
				case status < 300 && strings.Contains(m.what, `\x00`) && op.id != "sendMessage" && op.id != "reportLeak": // which take all texts
					t.Errorf("%s, %s takes %s", op.id, m.field, m.what)
				}
			}
		}
		t.Logf("answers by status: %v", n)
		if n[http.StatusBadRequest] < 1000 {
			t.Error("hardly anything is refused")
		}
	})
}

// Every parameter in query and header, broken in every way that the contract
// forbids.
func TestBadInput_everyParameter(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		before, n := s.state(p, own), 0
		for _, op := range s.inOrder() {
			if op.openQuery || op.oauth {
				continue
			}
			_, example := bodyOf(op)
			var body any
			if example != nil {
				body = example
			}
			for _, param := range op.route.Operation.Parameters {
				for _, m := range brokenParameter(param.Value) {
					n++
					path, headers := own.called(op, nil), []string{}
					if param.Value.In == "query" {
						path = own.called(op, url.Values{param.Value.Name: {m.body.(string)}})
					} else if param.Value.In == "header" {
						headers = []string{param.Value.Name, m.body.(string)}
					} else {
						continue
					}
					status, text := s.answerOf(p, op.route.Method, path, body, headers...)
					s.refused(op, m, status, text)
				}
			}
		}
		s.unchanged(before, s.state(p, own))
		t.Logf("%d parameters", n)
		if n < 300 {
			t.Errorf("only %d parameters", n)
		}
	})
}

func brokenParameter(p *openapi3.Parameter) (out []mutation) {
	s := p.Schema.Value
	add := func(what, value string) {
		out = append(out, mutation{what, p.In + "." + p.Name, value})
	}
	switch {
	case s.Type.Is("integer"), s.Type.Is("number"):
		for _, v := range []string{"x", "1e999", "٣", "99999999999999999999"} {
			add("no number", v)
		}
	case s.Type.Is("boolean"):
		add("no boolean", "maybe")
	case len(s.Enum) > 0:
		add("no such value", "no_such_value")
	case s.Format == "date-time":
		add("no time", "yesterday")
	}
	if s.MaxLength != nil {
		add("too long", strings.Repeat("a", int(*s.MaxLength)+1))
	}
	if s.Max != nil {
		add("too great", fmt.Sprint(int64(*s.Max)+1))
	}
	if s.Min != nil {
		add("too small", fmt.Sprint(int64(*s.Min)-1))
	}
	return out
}

// A stale ETag stops every PATCH and DELETE that takes one.
func TestBadInput_staleETags(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		before, n := s.state(p, own), 0
		for _, op := range s.inOrder() {
			takes := slices.ContainsFunc(op.route.Operation.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "If-Match" })
			path := own.path(op.path)
			if !takes || strings.HasSuffix(path, "/x") || slices.Contains(ends, op.id) {
				continue
			}
			_, example := bodyOf(op)
			var body any
			if example != nil {
				body = example
			}
			n++
			status, text := s.answerOf(p, op.route.Method, path, body, "If-Match", `"999999"`)
			if code, field := problemIn(text); status != http.StatusPreconditionFailed || code != "precondition_failed" || field != "header.If-Match" {
				t.Errorf("%s: got %d %s %q, want 412; %.300s", op.id, status, code, field, text)
			}
		}
		s.unchanged(before, s.state(p, own))
		t.Logf("%d operations", n)
		if n < 10 {
			t.Errorf("only %d operations", n)
		}
	})
}

// An Idempotency-Key that came with another request is refused by every POST
// that takes one from a known caller.
func TestBadInput_reusedIdempotencyKeys(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		p := s.signUp("ada@example.com")
		own := s.things(p, "own-things")
		me := p.userID(s)
		before, n := s.state(p, own), 0
		for _, op := range s.inOrder() {
			takes := slices.ContainsFunc(op.route.Operation.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "Idempotency-Key" })
			if !takes || op.permission == auth.PermissionPublic || slices.Contains(ends, op.id) || looks(op) || op.id == "switchTenant" {
				continue // what only reads; a session, which is kept nowhere
			}
			key := "used-for-" + op.id
			_, _, err := s.srv.d.Idempotency.Claim(t.Context(), controldb.IdemKey{TenantID: p.TenantId, Principal: me, Key: key}, "of another request")
			check(t, err)
			check(t, s.srv.d.Idempotency.Finish(t.Context(), controldb.IdemKey{TenantID: p.TenantId, Principal: me, Key: key}, []byte("sealed")))
			_, example := bodyOf(op)
			var body any
			if example != nil {
				body = example
			}
			n++
			status, text := s.answerOf(p, op.route.Method, own.called(op, nil), body, "Idempotency-Key", key)
			if strings.Contains(own.called(op, nil), strings.Repeat("0", 26)) && status == http.StatusNotFound {
				continue // of a kind that nobody made: it is looked for first
			}
			if code, _ := problemIn(text); status != http.StatusUnprocessableEntity && status != http.StatusConflict || !strings.HasPrefix(code, "idempotency") {
				t.Errorf("%s: got %d %s; %.300s", op.id, status, code, text)
			}
		}
		s.unchanged(before, s.state(p, own))
		t.Logf("%d operations", n)
		if n < 15 {
			t.Errorf("only %d operations", n)
		}
	})
}

// A page token of another tenant opens no page of any list.
func TestBadInput_pageTokensOfAnotherTenant(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		a, b := s.signUp("a@example.com"), s.signUp("b@example.com")
		own, n := s.things(a, "own-things"), 0
		token := func(p person, op *operation, path string) string {
			u, err := url.Parse(path)
			check(t, err)
			sum := sha256.Sum256([]byte(p.TenantId + "\x00" + op.id + "\x00" + u.Path + "\x00" + u.Query().Encode()))
			text, err := json.Marshal(pageState{After: "0", For: base64.RawURLEncoding.EncodeToString(sum[:12])})
			check(t, err)
			payload := base64.RawURLEncoding.EncodeToString(text)
			return payload + "." + s.srv.sign(payload)
		}
		for _, op := range s.inOrder() {
			if !op.query["page_token"] || op.permission == auth.PermissionPublic || op.tag == "billing" {
				continue
			}
			n++
			path := own.called(op, nil)
			for _, c := range []struct {
				token string
				fine  bool
			}{{token(a, op, path), true}, {token(b, op, path), false}, {token(a, op, path) + "A", false}, {token(a, op, path+"x"), false}} {
				u, err := url.Parse(path)
				check(t, err)
				q := u.Query()
				q.Set("page_token", c.token)
				u.RawQuery = q.Encode()
				status, text := s.answerOf(a, op.route.Method, u.String(), nil)
				code, field := problemIn(text)
				if foreign := status == http.StatusBadRequest && code == "page_token_invalid" && field == "query.page_token"; foreign == c.fine || status >= 500 {
					t.Errorf("%s: got %d %s %q, want the token taken: %v; %.300s", op.id, status, code, field, c.fine, text)
				}
			}
		}
		t.Logf("%d lists", n)
		if n < 10 {
			t.Errorf("only %d lists", n)
		}
	})
}
