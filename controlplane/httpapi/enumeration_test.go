package httpapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"regexp"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluicemq/sluice/controlplane/auth"
	"github.com/sluicemq/sluice/internal/sqldb"
)

// work is what requests cost.
type work struct {
	hashes, mails, queries, writes atomic.Int64
	during                         atomic.Pointer[func()] // called once, while the next password is hashed
}

func (w *work) hashed() {
	w.hashes.Add(1)
	if f := w.during.Swap(nil); f != nil {
		(*f)()
	}
}

func (w *work) now() [4]int64 {
	return [4]int64{w.hashes.Load(), w.mails.Load(), w.queries.Load(), w.writes.Load()}
}

// countedMails counts the mails that strangers can cause.
type countedMails struct {
	auth.Mailer
	n *atomic.Int64
}

func (m countedMails) SignUpCode(ctx context.Context, to, locale, name, code string) error {
	m.n.Add(1)
	return m.Mailer.SignUpCode(ctx, to, locale, name, code)
}

func (m countedMails) AccountExists(ctx context.Context, to, locale string) error {
	m.n.Add(1)
	return m.Mailer.AccountExists(ctx, to, locale)
}

func (m countedMails) ResetCode(ctx context.Context, to, locale, code string) error {
	m.n.Add(1)
	return m.Mailer.ResetCode(ctx, to, locale, code)
}

func (m countedMails) EmailCode(ctx context.Context, to, locale, code string) error {
	m.n.Add(1)
	return m.Mailer.EmailCode(ctx, to, locale, code)
}

func (m countedMails) NoMail(ctx context.Context) error {
	m.n.Add(1)
	return m.Mailer.NoMail(ctx)
}

// countStatements counts reads and writes of the database.
func (s *system) countStatements() {
	s.t.Helper()
	count := func(n *atomic.Int64) func(*gorm.DB) { return func(*gorm.DB) { n.Add(1) } }
	on := func(db *gorm.DB) {
		cb := db.Callback()
		_ = cb.Query().Before("gorm:query").Register("test:count", count(&s.work.queries))
		_ = cb.Row().Before("gorm:row").Register("test:count", count(&s.work.queries))
		_ = cb.Create().Before("gorm:create").Register("test:count", count(&s.work.writes))
		_ = cb.Update().Before("gorm:update").Register("test:count", count(&s.work.writes))
		_ = cb.Delete().Before("gorm:delete").Register("test:count", count(&s.work.writes))
	}
	on(s.db.Conn(s.t.Context()))
	check(s.t, s.db.InTx(s.t.Context(), func(ctx context.Context) error { on(s.db.Conn(ctx)); return nil }))
}

// stranger is one way to ask about a mail address without being its owner.
type stranger struct {
	name, path, body string // %s is the address
	signedIn         bool
}

var strangers = []stranger{
	{"sign-in", "/v1/auth/sign-in", `{"email":%q,"password":"not the password"}`, false},
	{"reopen", "/v1/auth/reopen", `{"email":%q,"password":"not the password"}`, false},
	{"sign-up", "/v1/auth/sign-up", `{"email":%q,"password":"not the password","tenant_name":"X"}`, false},
	{"reset", "/v1/auth/password-reset", `{"email":%q}`, false},
	{"reset confirm", "/v1/auth/password-reset/confirm", `{"email":%q,"code":"000000","password":"not the password"}`, false},
	{"verify", "/v1/auth/verify", `{"email":%q,"code":"000000"}`, false},
	{"email undo", "/v1/auth/email-undo", `{"email":%q,"code":"AAAAAAAAAAAAAAAAAAAAAAAAAA"}`, false},
	{"email change", "/v1/me/actions/change-email", `{"email":%q}`, true},
}

var requestIDs = regexp.MustCompile(`req_[0-9A-Z]{26}`)

// ask sends a request inside the process and returns its answer, without what
// is new in each, and its time.
func (s *system) ask(st stranger, token, email string) (string, time.Duration) {
	req := httptest.NewRequestWithContext(s.t.Context(), "POST", st.path, strings.NewReader(fmt.Sprintf(st.body, email)))
	req.Header.Set("Content-Type", "application/json")
	if st.signedIn {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	rec := httptest.NewRecorder()
	begun := time.Now()
	s.server.Config.Handler.ServeHTTP(rec, req)
	took := time.Since(begun)
	h := rec.Header().Clone()
	for _, name := range []string{"X-Request-Id", "Ratelimit"} {
		h.Del(name)
	}
	return fmt.Sprint(rec.Code, h, requestIDs.ReplaceAllString(rec.Body.String(), "")), took
}

// TestEnumeration_sameAnswerAndSameWork: status, headers, text, hashes, mails
// and statements are those of a known address exactly for an unknown one.
func TestEnumeration_sameAnswerAndSameWork(t *testing.T) {
	each(t, func(t *testing.T, s *system) {
		known, caller := s.signUp("known@example.com"), s.signUp("caller@example.com")
		s.countStatements()
		for _, st := range strangers {
			cost := func(email string) (string, [4]int64) {
				before := s.work.now()
				answer, _ := s.ask(st, caller.AccessToken, email)
				after := s.work.now()
				for i := range after {
					after[i] -= before[i]
				}
				return answer, after
			}
			cost("warm@example.com") // caches of sessions and keys
			knownAnswer, knownCost := cost(known.email)
			otherAnswer, otherCost := cost("nobody@example.com")
			if knownAnswer != otherAnswer {
				t.Errorf("%s: answers differ:\n%s\n%s", st.name, knownAnswer, otherAnswer)
			}
			if knownCost != otherCost || knownCost == [4]int64{} {
				t.Errorf("%s: hashes, mails, reads, writes are %v for a known and %v for an unknown address", st.name, knownCost, otherCost)
			}
		}
	})
}

// TestEnumeration_timesTellNothing compares the times of many requests about
// known and unknown addresses: the share of pairs in which the known one took
// longer (the area under the ROC curve) must be near one half. With 150 of
// each, chance alone strays by 0.033; the bound is five times that.
func TestEnumeration_timesTellNothing(t *testing.T) {
	const n, bound = 150, 0.17
	s := newSystem(t, sqldb.SQLite)
	caller := s.signUp("caller@example.com")
	limits := &s.srv.d.Config.Limits
	limits.SignIn = limits.SignInAccount
	emails := make([]string, 2*n) // the first half is known
	for i := range emails {
		emails[i] = fmt.Sprintf("person%03d@example.com", i)
	}
	check(t, s.db.InTx(t.Context(), func(ctx context.Context) error {
		for i := range n {
			row := map[string]any{"id": fmt.Sprintf("usr_%026d", i), "email": emails[i], "name": "p", "password_hash": s.someHash(ctx), "locale": "en", "created_at": 1, "updated_at": 1, "revision": 1}
			if err := s.db.Conn(ctx).Table("users").Create(row).Error; err != nil {
				return err
			}
		}
		return nil
	}))
	for _, st := range strangers {
		for range 20 { // caches, pools, the first pages of tables
			s.ask(st, caller.AccessToken, "warm@example.com")
		}
		times := [2][]time.Duration{}
		for _, i := range rand.Perm(2 * n) {
			_, took := s.ask(st, caller.AccessToken, emails[i])
			times[i/n] = append(times[i/n], took)
		}
		if a := auc(times[0], times[1]); a < 0.5-bound || a > 0.5+bound {
			t.Errorf("%s: known addresses are told from unknown ones by time: AUC %.3f", st.name, a)
		} else {
			t.Logf("%s: AUC %.3f of %d pairs", st.name, a, n*n)
		}
	}
}

// someHash is the password hash of the first user.
func (s *system) someHash(ctx context.Context) string {
	var hash string
	check(s.t, s.db.Conn(ctx).Table("users").Limit(1).Pluck("password_hash", &hash).Error)
	return hash
}

// auc is the probability that one of a is greater than one of b (Mann and
// Whitney), ties counted as halves.
func auc(a, b []time.Duration) float64 {
	sort.Slice(b, func(i, j int) bool { return b[i] < b[j] })
	sum := 0.0
	for _, x := range a {
		below := sort.Search(len(b), func(i int) bool { return b[i] >= x })
		above := sort.Search(len(b), func(i int) bool { return b[i] > x })
		sum += float64(below) + float64(above-below)/2
	}
	return sum / float64(len(a)*len(b))
}

func TestAUC(t *testing.T) {
	one, two := []time.Duration{1, 2, 3}, []time.Duration{4, 5, 6}
	if auc(one, two) != 0 || auc(two, one) != 1 || auc(one, one) != 0.5 {
		t.Error(auc(one, two), auc(two, one), auc(one, one))
	}
}
