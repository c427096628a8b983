package policy

import (
	"bytes"
	"strings"
)

// Properties of a stored record are "key 0x01 value 0x02" repeated. Some hold
// names, which are physical in the store and the client's own outside; those
// that begin with OwnPrefix are Sluice's and never leave it.
const OwnPrefix = "__SLUICE"

const (
	nameEnd  = 0x01
	valueEnd = 0x02
)

// namesSomething reports whether a property holds a topic or group name.
func namesSomething(key []byte) bool {
	switch string(key) {
	case "RETRY_TOPIC", "REAL_TOPIC", "DLQ_ORIGIN_TOPIC", "PGROUP", "ORIGIN_GROUP":
		return true
	}
	return false
}

// ShowProperties maps a stored record's properties to what the view's client
// may see. It returns props itself when nothing is to change, else a new slice.
func ShowProperties(v *View, props []byte) []byte {
	if v.p.system {
		return props
	}
	return orNew(props, v.showValue)
}

// AppendShownProperties adds to dst what ShowProperties returns.
func AppendShownProperties(dst []byte, v *View, props []byte) []byte {
	if v.p.system {
		return append(dst, props...)
	}
	dst, _ = appendMapped(dst, props, v.showValue)
	return dst
}

func (v *View) showValue(value string) (string, bool) {
	shown := v.ShowTopic(value)
	return shown, shown != ""
}

// StoreProperties maps properties that a client sent to their stored form. A
// name of another namespace is left out. Same ownership as ShowProperties.
func StoreProperties(v *View, props []byte) []byte {
	if v.p.system {
		return props
	}
	return orNew(props, func(value string) (string, bool) {
		prefix, rest := splitPrefix(value)
		ns, _, ok := strings.Cut(rest, separator)
		switch {
		case !ok:
			return prefix + PhysicalName(v.ns.id, rest), true
		case ns == v.ns.id:
			return value, true
		}
		return "", false
	})
}

// orNew returns props mapped in a new slice, or itself if nothing changes.
func orNew(props []byte, name func(string) (string, bool)) []byte {
	if out, changed := appendMapped(nil, props, name); changed {
		if out == nil {
			return []byte{}
		}
		return out
	}
	return props
}

// appendMapped adds props to dst with the names that name gives them, without
// those that it drops and without Sluice's own. Nothing is added when dst is nil
// and nothing changes.
func appendMapped(dst, props []byte, name func(string) (string, bool)) (out []byte, changed bool) {
	lazy := dst == nil
	kept := 0 // props[kept:at] is to be added as it is
	for at := 0; at < len(props); {
		end := len(props)
		if i := bytes.IndexByte(props[at:], valueEnd); i >= 0 {
			end = at + i + 1
		}
		pair := props[at:end]
		key, value, _ := bytes.Cut(bytes.TrimSuffix(pair, []byte{valueEnd}), []byte{nameEnd})
		drop, replacement := false, []byte(nil)
		switch {
		case bytes.HasPrefix(key, []byte(OwnPrefix)):
			drop = true
		case namesSomething(key):
			if mapped, keep := name(string(value)); !keep {
				drop = true
			} else if mapped != string(value) {
				drop, replacement = true, joinProperty(string(key), mapped)
			}
		}
		if drop {
			if dst == nil {
				dst = make([]byte, 0, len(props))
			}
			dst = append(append(dst, props[kept:at]...), replacement...)
			kept, changed = end, true
		}
		at = end
	}
	if lazy && !changed {
		return nil, false
	}
	return append(dst, props[kept:]...), changed
}

func joinProperty(key, value string) []byte {
	b := make([]byte, 0, len(key)+len(value)+2)
	b = append(b, key...)
	b = append(b, nameEnd)
	b = append(b, value...)
	return append(b, valueEnd)
}
