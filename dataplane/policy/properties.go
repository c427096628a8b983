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

// nameProperties hold a topic or group name.
var nameProperties = map[string]bool{
	"RETRY_TOPIC": true, "REAL_TOPIC": true, "DLQ_ORIGIN_TOPIC": true, "PGROUP": true, "ORIGIN_GROUP": true,
}

// ShowProperties maps a stored record's properties to what the view's client
// may see. It returns props itself when nothing is to change, else a new slice.
func ShowProperties(v *View, props []byte) []byte {
	if v.p.system {
		return props
	}
	return mapProperties(props, func(value string) (string, bool) {
		shown := v.ShowTopic(value)
		return shown, shown != ""
	})
}

// StoreProperties maps properties that a client sent to their stored form. A
// name of another namespace is left out. Same ownership as ShowProperties.
func StoreProperties(v *View, props []byte) []byte {
	if v.p.system {
		return props
	}
	return mapProperties(props, func(value string) (string, bool) {
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

func mapProperties(props []byte, name func(string) (string, bool)) []byte {
	var out []byte // nil until the first change
	for rest := props; len(rest) > 0; {
		pair := rest
		if i := bytes.IndexByte(rest, valueEnd); i >= 0 {
			pair, rest = rest[:i+1], rest[i+1:]
		} else {
			rest = nil
		}
		at := len(props) - len(rest) - len(pair)
		key, value, _ := bytes.Cut(bytes.TrimSuffix(pair, []byte{valueEnd}), []byte{nameEnd})
		replacement, changed := pair, false
		switch {
		case bytes.HasPrefix(key, []byte(OwnPrefix)):
			replacement, changed = nil, true
		case nameProperties[string(key)]:
			if mapped, keep := name(string(value)); !keep {
				replacement, changed = nil, true
			} else if mapped != string(value) {
				replacement, changed = joinProperty(string(key), mapped), true
			}
		}
		if changed && out == nil {
			out = append(make([]byte, 0, len(props)), props[:at]...)
		}
		if out != nil {
			out = append(out, replacement...)
		}
	}
	if out == nil {
		return props
	}
	return out
}

func joinProperty(key, value string) []byte {
	b := make([]byte, 0, len(key)+len(value)+2)
	b = append(b, key...)
	b = append(b, nameEnd)
	b = append(b, value...)
	return append(b, valueEnd)
}
