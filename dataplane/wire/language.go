package wire

// Language is the client language of a frame, as its number in the compact
// header.
type Language uint8

// Languages by number.
const (
	LanguageJava Language = 0
	LanguageCPP  Language = 1
	LanguageGo   Language = 9
	// LanguageUnknown stands for names that the protocol does not define.
	LanguageUnknown Language = 127
)

var languageNames = [...]string{
	"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER",
	"HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
}

// String is the name in the JSON header; languages without a name are OTHER.
func (l Language) String() string {
	if int(l) < len(languageNames) {
		return languageNames[l]
	}
	return "OTHER"
}

func languageOf(name string) Language {
	for i, n := range languageNames {
		if n == name {
			return Language(i)
		}
	}
	return LanguageUnknown
}
