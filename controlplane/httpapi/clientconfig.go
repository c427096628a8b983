package httpapi

import (
	"context"
	"embed"
	"strings"
	"text/template"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/internal/errs"
	"github.com/sluicemq/sluice/tenant"
)

//go:embed snippets/*.tmpl
var snippetFiles embed.FS

var snippets = template.Must(template.ParseFS(snippetFiles, "snippets/*.tmpl"))

const secretPlaceholder = "YOUR_API_KEY_SECRET"

type client struct{ file, install, run string }

// clients says how each snippet is run; versions are those that the interop
// tests use.
var clients = map[api.ClientLanguage]client{
	"go":            {"main.go", "go mod init hello && go get github.com/apache/rocketmq-clients/golang/v5@v5.1.4", "go mod tidy && go run ."},
	"java-grpc":     {"Hello.java", "mvn -q dependency:get -Dartifact=org.apache.rocketmq:rocketmq-client-java:5.2.0 && mvn -q dependency:copy -Dartifact=org.apache.rocketmq:rocketmq-client-java:5.2.0 -DoutputDirectory=lib", "java -cp 'lib/*' Hello.java"},
	"java-remoting": {"Hello.java", "mvn -q dependency:get -Dartifact=org.apache.rocketmq:rocketmq-client:5.5.0 && mvn -q -f ~/.m2/repository/org/apache/rocketmq/rocketmq-client/5.5.0/rocketmq-client-5.5.0.pom dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=\"$PWD/lib\" && cp ~/.m2/repository/org/apache/rocketmq/rocketmq-client/5.5.0/rocketmq-client-5.5.0.jar lib/", "java -cp 'lib/*' Hello.java"},
	"python":        {"hello.py", "python3 -m venv .venv && .venv/bin/pip install rocketmq-python-client==5.1.2", ".venv/bin/python hello.py"},
	"node":          {"hello.js", "npm install rocketmq-client-nodejs@1.0.8", "node hello.js"},
	"cli":           {"hello.sh", "export PATH=\"$PWD/bin:$PATH\" # in the folder where sluice was built, or wherever the program lies", "sh hello.sh"},
}

// GetClientConfig writes a ready client for a namespace.
func (s *server) GetClientConfig(gc context.Context, r GetClientConfigRequestObject) (GetClientConfigResponseObject, error) {
	c, ctx := enter(gc)
	n, err := s.d.Tenants.Namespace(ctx, c.tenantID(), r.Ns)
	if err != nil {
		return nil, err
	}
	where, err := s.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	keyID, err := s.keyFor(ctx, c, r)
	if err != nil {
		return nil, err
	}
	cl := clients[r.Params.Language]
	cluster := where[n.ClusterID]
	var text strings.Builder
	err = snippets.ExecuteTemplate(&text, string(r.Params.Language)+".tmpl", map[string]string{
		"Remoting": cluster.RemotingEndpoint, "GRPC": cluster.GRPCEndpoint, "HTTP": s.base(c.gin.Request), "Namespace": n.ID,
		"Topic": or(r.Params.Topic, "hello"), "Group": or(r.Params.Group, "hello-group"), "KeyID": keyID, "Secret": secretPlaceholder,
	})
	if err != nil {
		return nil, err
	}
	return GetClientConfig200JSONResponse{NamespaceId: n.ID, Language: r.Params.Language, FileName: cl.file, Install: cl.install, Run: cl.run,
		Snippet: text.String(), SecretPlaceholder: secretPlaceholder}, nil
}

const keyPlaceholder = "YOUR_API_KEY_ID"

// keyFor is the key to fill in: the one asked for, or the newest active one
// of the caller with a scope in the namespace.
func (s *server) keyFor(ctx context.Context, c *call, r GetClientConfigRequestObject) (string, error) {
	if r.Params.ApiKeyId != nil {
		k, err := s.d.Tenants.Key(ctx, c.tenantID(), *r.Params.ApiKeyId)
		if errs.Is(err, errs.NotFound) {
			return "", errs.Field("query.api_key_id", "API key %q does not exist", *r.Params.ApiKeyId)
		}
		return k.ID, err
	}
	keys, err := s.d.Tenants.Keys(ctx, c.tenantID(), tenant.KeyFilter{OwnerID: c.principal.ID, NamespaceID: r.Ns, State: tenant.KeyActive}, tenant.Page{Size: 1000})
	if err != nil {
		return "", err
	}
	newest, id := int64(-1), keyPlaceholder
	for _, k := range keys {
		if made := k.CreatedAt.UnixMilli(); made > newest {
			newest, id = made, k.ID
		}
	}
	return id, nil
}
