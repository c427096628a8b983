package policy

import (
	"net/netip"
	"strings"
)

// View is one principal at work in one namespace, made for one request. It
// maps names both ways, in the dialect that the client itself used: bare
// names, or names that carry the namespace.
type View struct {
	p        *Principal
	ns       *namespace
	remote   netip.Addr
	prefixed bool
	sending  string   // bare topic of the last Topic call with OperationPub, for TakeSend
	granted  [4]grant // the first of them, for Still: more does no request ask that waits
	grants   int
}

// grant is one question that was answered with yes.
type grant struct {
	kind kind
	name string // bare
	op   Operation
}

// In returns the principal's view of the namespace with the given id, for a
// caller at an address. An empty id means the only namespace that the key
// reaches. The error is a *Refusal.
func (p *Principal) In(namespaceID string, remote netip.Addr) (*View, error) {
	if p.system {
		return &View{p: p}, nil
	}
	var found *namespace
	for i := range p.scopes {
		ns := p.scopes[i].ns
		if namespaceID != "" {
			if ns.id == namespaceID {
				found = ns
				break
			}
			continue
		}
		if found != nil && found != ns {
			return nil, refuse(CodeNamespaceRequired, "the API key %s reaches several namespaces: set the namespace in the client", p.id)
		}
		found = ns
	}
	if found == nil {
		if namespaceID != "" {
			return nil, refuse(CodeNamespaceMismatch, "namespace %.64q is not one of the API key %s: leave the namespace out or use the key's own", namespaceID, p.id).
				by(p, nil, DeniedConnect, "namespace", namespaceID)
		}
		return nil, refuse(CodePermissionDenied, "the API key %s reaches no namespace", p.id).by(p, nil, DeniedConnect, "namespace", "")
	}
	if err := found.open(); err != nil {
		return nil, err.by(p, found, DeniedConnect, "namespace", found.id)
	}
	return &View{p: p, ns: found, remote: remote}, nil
}

// open refuses everybody once the namespace is gone or its tenant suspended.
func (ns *namespace) open() *Refusal {
	policy := ns.policy.Load()
	if policy == nil {
		return refuse(CodeNamespaceMismatch, "namespace %s was deleted", ns.id)
	}
	if policy.Suspended {
		return refuse(CodeTenantSuspended, "the tenant is suspended: open the console to see why")
	}
	return nil
}

// InOf returns the view that names decide: the first one that carries a
// namespace ("ns%name", "%RETRY%ns%group") chooses it, else hint, else the
// key's only namespace.
func (p *Principal) InOf(hint string, remote netip.Addr, names ...string) (*View, error) {
	if p.system || hint != "" {
		return p.In(hint, remote)
	}
	for _, name := range names {
		_, rest := splitPrefix(name)
		if ns, _, ok := strings.Cut(rest, separator); ok && ns != "" {
			return p.In(ns, remote)
		}
	}
	return p.In("", remote)
}

// System reports whether the view is Sluice's own: names are physical.
func (v *View) System() bool { return v.p.system }

// Principal returns whose view it is.
func (v *View) Principal() *Principal { return v.p }

// NamespaceID returns the namespace, "" for the system.
func (v *View) NamespaceID() string {
	if v.ns == nil {
		return ""
	}
	return v.ns.id
}

// Prefixed reports whether the client spoke names that carry the namespace.
func (v *View) Prefixed() bool { return v.prefixed }

// SetPrefixed fixes the client's dialect, for notices that answer no request.
func (v *View) SetPrefixed(prefixed bool) { v.prefixed = prefixed }

// Topic checks that the caller may do op on a topic and returns its physical
// name. Retry and dead-letter topics belong to their group: SUB on the group
// is what counts, also for sending back. The error is a *Refusal.
func (v *View) Topic(name string, op Operation) (string, error) {
	if v.p.system {
		return name, checkSystemName("topic", name)
	}
	prefix, rest := splitPrefix(name)
	bare, err := v.strip("topic", name, rest)
	if err != nil {
		return "", err
	}
	if prefix != "" {
		if op == OperationPub {
			op = OperationSub
		}
		group, err := v.group(bare, op)
		if err != nil {
			return "", err
		}
		return prefix + group, nil
	}
	if err := CheckTopicName(bare); err != nil {
		return "", err
	}
	if err := v.allow(kindTopic, bare, op); err != nil {
		return "", err
	}
	if op == OperationPub {
		v.sending = bare
	}
	return PhysicalName(v.ns.id, bare), nil
}

// allow decides whether the caller may do op; see Rule for the order.
func (v *View) allow(kind kind, bare string, op Operation) error {
	ok, r := v.decide(kind, bare, op)
	if ok {
		if v.grants < len(v.granted) {
			v.granted[v.grants] = grant{kind, bare, op}
			v.grants++
		}
		v.p.note(v, kind, bare, op)
		return nil
	}
	return v.denied(kind, bare, op, r)
}

func (v *View) denied(kind kind, bare string, op Operation, r *rule) error {
	out := refuse(CodePermissionDenied, "the API key %s has no %s permission on %s %s", v.p.id, op, kind, bare)
	if r != nil {
		out = refuse(CodePermissionDenied, "the rule %s denies the API key %s the permission %s on %s %s", r.id, v.p.id, op, kind, bare)
	}
	return out.by(v.p, v.ns, deniedOperations[op], kind.String(), bare)
}

// decide also returns the rule that decided, nil when it was a scope or nothing
// that speaks for the caller.
func (v *View) decide(kind kind, bare string, op Operation) (bool, *rule) {
	if list := v.ns.acl.Load(); list != nil && len(list.rules) > 0 {
		q := question{principals: [3]string{v.p.id, v.p.owner, everyone}, kind: kind, name: bare, op: op, remote: v.remote, now: v.p.engine.cfg.Now}
		if r := list.decide(&q); r != nil {
			return !r.deny, r
		}
	}
	for i := range v.p.scopes {
		s := &v.p.scopes[i]
		patterns := s.topics
		if kind == kindGroup {
			patterns = s.groups
		}
		if s.ns == v.ns && s.ops&op != 0 && matches(patterns, bare) && within(s.cidrs, v.remote) &&
			(s.expires == nil || v.p.engine.cfg.Now().Before(*s.expires)) {
			return true, nil
		}
	}
	return false, nil
}

// Still returns nil when everything that was granted would be granted now: the
// caller is live, the namespace there and not suspended, and no rule took
// anything away. A request that waits asks it again when the policy changed.
// The error is a *Refusal.
func (v *View) Still() error {
	if v.p.system {
		return nil
	}
	if !v.p.Live() {
		return errUnauthenticated()
	}
	if err := v.ns.open(); err != nil {
		return err.by(v.p, v.ns, DeniedConnect, "namespace", v.ns.id)
	}
	for _, g := range v.granted[:v.grants] {
		if ok, r := v.decide(g.kind, g.name, g.op); !ok {
			return v.denied(g.kind, g.name, g.op, r)
		}
	}
	return nil
}

// TopicAny is Topic for requests that any of several operations allows, such
// as a route query; ops are tried in order.
func (v *View) TopicAny(name string, ops ...Operation) (physical string, err error) {
	for _, op := range ops {
		if physical, err = v.Topic(name, op); err == nil {
			return physical, nil
		}
	}
	return "", err
}

// Group checks that the caller may do op with a consumer group and returns its
// physical name. The error is a *Refusal.
func (v *View) Group(name string, op Operation) (string, error) {
	if v.p.system {
		return name, checkSystemName("group", name)
	}
	bare, err := v.strip("group", name, name)
	if err != nil {
		return "", err
	}
	return v.group(bare, op)
}

func (v *View) group(bare string, op Operation) (string, error) {
	if err := CheckGroupName(bare); err != nil {
		return "", err
	}
	if err := v.allow(kindGroup, bare, op); err != nil {
		return "", err
	}
	return PhysicalName(v.ns.id, bare), nil
}

// Producer maps a producer group's name; no permission hangs on it, since it
// only names who may be asked about a transaction. The error is a *Refusal.
func (v *View) Producer(name string) (string, error) {
	if v.p.system {
		return name, checkSystemName("producer group", name)
	}
	bare, err := v.producer(name)
	if err != nil {
		return "", err
	}
	return PhysicalName(v.ns.id, bare), nil
}

// CheckProducer is Producer for those who do not want the name.
func (v *View) CheckProducer(name string) error {
	if v.p.system {
		return checkSystemName("producer group", name)
	}
	_, err := v.producer(name)
	return err
}

func (v *View) producer(name string) (bare string, err error) {
	if bare, err = v.strip("producer group", name, name); err == nil {
		err = checkCharacters("producer group", bare, 255)
	}
	return bare, err
}

// strip removes the namespace from a name and remembers that it was there.
func (v *View) strip(kind, whole, name string) (string, error) {
	ns, bare, ok := strings.Cut(name, separator)
	if !ok {
		return name, nil
	}
	if ns != v.ns.id {
		return "", refuse(CodeNamespaceMismatch, "%s %.120q names a namespace that is not the API key's", kind, whole).by(v.p, v.ns, DeniedConnect, "namespace", ns)
	}
	v.prefixed = true
	return bare, nil
}

// checkSystemName keeps even Sluice's own calls from naming a path.
func checkSystemName(kind, name string) error {
	if name == "" || len(name) > 255 || strings.ContainsAny(name, "/\\\x00") || strings.Contains(name, "..") {
		return refuse(CodeNameInvalid, "%s name %.100q is empty, over 255 bytes or a path", kind, name)
	}
	return nil
}

// ShowTopic returns a physical topic name as this client knows it, or "" when
// it belongs to another namespace and must not be shown.
func (v *View) ShowTopic(physical string) string {
	if v.p.system {
		return physical
	}
	prefix, ns, bare, ok := SplitPhysical(physical)
	if !ok || ns != v.ns.id {
		return ""
	}
	if v.prefixed {
		return physical
	}
	return prefix + bare
}

// ShowGroup is ShowTopic for group names.
func (v *View) ShowGroup(physical string) string { return v.ShowTopic(physical) }

// MaxMessageBytes returns the body limit of the topic that the last Topic call
// with OperationPub named, or 0 when the policy sets none.
func (v *View) MaxMessageBytes() int64 {
	if v.ns == nil {
		return 0
	}
	if policy := v.ns.policy.Load(); policy != nil {
		return policy.Topics[v.sending].MaxMessageBytes
	}
	return 0
}
