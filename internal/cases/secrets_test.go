package cases

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// Case B142: after its creation a secret is in no answer of the API, not in the
// metrics, not in the log and not in any file of the server in plain text;
// refusals of a wrong signature do not hold it either.
func TestSecrets_appearNowhere_B142(t *testing.T) {
	server, err := testcluster.StartProcess(t.Context(), testcluster.Binary(t), filepath.Join(t.TempDir(), "data"), "SLUICE_LOG_LEVEL=debug")
	must(t, err)
	t.Cleanup(func() { must(t, server.Close()) })
	a, err := testcluster.SignUp(t.Context(), server.URL(), server.Mails(), "secret@example.com", "Secret")
	must(t, err)
	k := key{server.Addresses, a.KeyID, a.Secret}
	must(t, remotingSend(t, k, "hello")([]byte("x"), ""))
	must(t, grpcSend(t, k, "hello")([]byte("x"), ""))
	if remotingSend(t, key{server.Addresses, a.KeyID, a.Secret + "x"}, "hello")([]byte("x"), "") == nil {
		t.Error("a wrong secret sends")
	}
	operator, err := os.ReadFile(filepath.Join(server.Data, "operator.token"))
	must(t, err)
	secrets := map[string]string{"the key's secret": a.Secret, "the password": a.Password, "the operator's token": strings.TrimSpace(string(operator))}
	look := func(where, text string) {
		t.Helper()
		for name, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", name, where)
			}
		}
	}
	get := func(url, authorization string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		must(t, err)
		req.Header.Set("Authorization", authorization)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s", url, resp.Status)
		}
		return string(body)
	}
	for _, path := range []string{"/v1/api-keys", "/v1/api-keys/" + a.KeyID, "/v1/me", "/v1/tenant", "/v1/audit-events", "/v1/namespaces/" + a.NamespaceID + "/client-config?language=go"} {
		look(path, get(server.URL()+path, "Bearer "+a.Token))
	}
	look("the metrics", get("http://"+server.Admin+"/metrics", "Bearer "+strings.TrimSpace(string(operator))))
	must(t, server.Stop())
	log, err := os.ReadFile(filepath.Join(filepath.Dir(server.Data), "standalone.log"))
	must(t, err)
	look("the log", string(log))
	files := 0
	must(t, filepath.WalkDir(server.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "operator.token" {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Size() > 64<<20 {
			return err // sparse
		}
		content, err := os.ReadFile(path)
		if err == nil {
			files++
			look("the file "+d.Name(), string(content))
		}
		return err
	}))
	if files < 10 {
		t.Errorf("only %d files were looked at", files)
	}
}
