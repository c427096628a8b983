package cases

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/testcluster"
)

// The command-line snippet runs as it is; only the sign-in, which asks a person,
// is answered by flags here.
func TestSnippet_commandLineRunsUnchanged(t *testing.T) {
	binary := testcluster.Binary(t)
	c := testcluster.Start(t)
	a := c.SignUp("shell@example.com")
	var config struct {
		Snippet  string `json:"snippet"`
		FileName string `json:"file_name"`
	}
	must(t, a.Do(t.Context(), "GET", "/v1/namespaces/"+a.NamespaceID+"/client-config?language=cli", nil, &config))
	var lines []string
	for line := range strings.Lines(config.Snippet) {
		if strings.HasPrefix(line, "sluice login ") {
			line = "printf '%s' \"$PASSWORD\" | " + strings.TrimSpace(line) + " --email " + a.Email + " --password-stdin\n"
		}
		lines = append(lines, line)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, config.FileName)
	must(t, os.WriteFile(script, []byte(strings.Join(lines, "")), 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", script)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "PASSWORD="+a.Password, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "hello from the shell") {
		t.Errorf("%v\n%s\nscript:\n%s", err, out, strings.Join(lines, ""))
	}
}
