package httpapi

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"html/template"

	"github.com/sluicemq/sluice/internal/errs"
)

type words struct {
	Title   string `json:"title"`
	Meaning string `json:"meaning"`
	Fix     string `json:"fix"`
}

// meaning is what the page of a code says, in both languages.
type meaning struct {
	EN words `json:"en"`
	ZH words `json:"zh"`
}

//go:embed meanings.json
var meaningsText []byte

// meanings holds a page for each code that a problem can have; a test finds
// codes that are missing.
var meanings = readMeanings()

func readMeanings() map[string]meaning {
	var out map[string]meaning
	if err := json.Unmarshal(meaningsText, &out); err != nil {
		panic("httpapi: meanings.json: " + err.Error()) // part of the binary
	}
	return out
}

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
	data := map[string]string{"Code": r.Code, "Title": m.EN.Title, "Meaning": m.EN.Meaning, "Fix": m.EN.Fix,
		"TitleZH": m.ZH.Title, "MeaningZH": m.ZH.Meaning, "FixZH": m.ZH.Fix}
	if err := errorPage.Execute(&b, data); err != nil {
		return nil, err
	}
	return GetErrorPage200TexthtmlResponse{Body: &b, ContentLength: int64(b.Len())}, nil
}
