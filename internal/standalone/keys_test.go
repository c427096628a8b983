package standalone

import (
	"bytes"
	"path/filepath"
	"sync"
	"testing"
)

// Two that start on one new folder of keys must not go on with two secrets:
// one of them would be locked out for good.
func TestOpenKeys_allThatStartAtOnceShareOne(t *testing.T) {
	dir := t.TempDir()
	c := Default()
	c.ClusterKey, c.PolicyKey, c.PolicyPublicKey = filepath.Join(dir, "cluster.key"), filepath.Join(dir, "policy.key"), filepath.Join(dir, "policy.pub")
	const callers = 16
	got := make([]*keys, callers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			<-start
			k, err := openKeys(c, true, true)
			if err != nil {
				t.Error(err)
			}
			got[i] = k
		})
	}
	close(start)
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, k := range got {
		if !bytes.Equal(k.secret, got[0].secret) || !k.signing.Equal(got[0].signing) || !k.public.Equal(got[0].public) {
			t.Errorf("caller %d got other keys than caller 0", i)
		}
	}
	data, err := openKeys(c, false, false) // as a broker reads them
	if err != nil {
		t.Fatal(err)
	}
	if !data.public.Equal(got[0].public) {
		t.Error("the public half is of another key")
	}
}
