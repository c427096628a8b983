package api

import _ "embed"

//go:generate go tool oapi-codegen -config models.cfg.yaml openapi.yaml
//go:generate go tool oapi-codegen -config server.cfg.yaml openapi.yaml
//go:generate go tool oapi-codegen -config client.cfg.yaml openapi.yaml

// SpecYAML is openapi.yaml as it was written.
//
//go:embed openapi.yaml
var SpecYAML []byte
