package httpapi

import (
	"maps"
	"testing"
)

func TestPlace_roundTrip(t *testing.T) {
	for _, place := range []map[int32]int64{{0: 0}, {0: 5, 3: 1 << 60, 63: 7}} {
		text := writePlace(place)
		got, err := readPlace(&text)
		if err != nil || !maps.Equal(got, place) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

func FuzzReadPlace(f *testing.F) {
	f.Add("0.1-3.44")
	f.Add("x")
	f.Add("0.-1")
	f.Fuzz(func(t *testing.T, text string) {
		place, err := readPlace(&text)
		if err != nil {
			return
		}
		for q, o := range place {
			if q < 0 || o < 0 {
				t.Errorf("%q: %d.%d", text, q, o)
			}
		}
	})
}

func TestLoopbackHost(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "localhost:8080": true, "127.0.0.1:8080": true, "127.0.0.9": true, "[::1]:80": true, "::1": true,
		"example.com": false, "127.0.0.1.example.com": false, "localhost.example.com:80": false, "": false, "10.0.0.1": false} {
		if got := loopbackHost(host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
}

func TestPathOf(t *testing.T) {
	for want, in := range map[string]struct {
		prefix  string
		pointer []string
	}{
		"body": {"body", nil}, "name": {"body", []string{"name"}}, "scopes[0].permissions[1]": {"body", []string{"scopes", "0", "permissions", "1"}},
		"query.page_size": {"query.page_size", nil}, "query.group_by[1]": {"query.group_by", []string{"1"}},
	} {
		if got := pathOf(in.prefix, in.pointer); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
