package httpapi

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"

	"github.com/sluicemq/sluice/internal/errs"
)

type words struct{ title, meaning, fix string }

// meaning is what the page of a code says, in both languages.
type meaning struct{ en, zh words }

func meaningOf(reason string, code errs.Code) meaning {
	if m, ok := meanings[reason]; ok {
		return m
	}
	return meanings[string(code)]
}

//go:embed errorpage.html
var errorPageText string

var errorPage = template.Must(template.New("error").Parse(errorPageText))

// GetErrorPage shows what a code means.
func (s *server) GetErrorPage(_ context.Context, r GetErrorPageRequestObject) (GetErrorPageResponseObject, error) {
	m, ok := meanings[r.Code]
	if !ok {
		return nil, errs.E(errs.NotFound, "there is no problem with the code %q", r.Code)
	}
	var b bytes.Buffer
	data := map[string]string{"Code": r.Code, "Title": m.en.title, "Meaning": m.en.meaning, "Fix": m.en.fix,
		"TitleZH": m.zh.title, "MeaningZH": m.zh.meaning, "FixZH": m.zh.fix}
	if err := errorPage.Execute(&b, data); err != nil {
		return nil, err
	}
	return GetErrorPage200TexthtmlResponse{Body: &b, ContentLength: int64(b.Len())}, nil
}
