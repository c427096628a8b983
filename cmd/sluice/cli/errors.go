package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/sluicemq/sluice/controlplane/apiclient"
)

// The exit codes, which scripts may rely on.
const (
	exitFailed   = 1
	exitUsage    = 2 // the command or its input is wrong
	exitNotFound = 3
	exitRefused  = 4 // not signed in, not allowed, or in conflict
	exitQuota    = 5 // a quota or a rate limit
	exitTimedOut = 6
)

// Error is a failure as a person sees it.
type Error struct {
	Exit      int
	What      string // what failed
	Why       string
	Fix       string // how to put it right
	RequestID string
	Code      string // of the API, if it comes from there
	Field     string
	Context   string // where the credential came from

	asJSON bool
	cause  error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Why == "" {
		return e.What
	}
	return e.What + ": " + e.Why
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

func usage(what, fix string) *Error { return &Error{Exit: exitUsage, What: what, Fix: fix} }

// Report writes err and returns the exit code for it; 0 for no error.
func Report(io IO, err error) int {
	if err == nil {
		return 0
	}
	var e *Error
	if !errors.As(err, &e) {
		e = usage(err.Error(), "See: sluice --help") // the root's own: an unknown command or flag
	}
	if e.asJSON {
		body := struct {
			Error errorJSON `json:"error"`
		}{errorJSON{e.What, e.Why, e.Fix, e.Code, e.Field, e.RequestID, e.Context, e.Exit}}
		text, _ := json.Marshal(body) // a struct of strings and a number
		fmt.Fprintf(io.Err, "%s\n", text)
		return e.Exit
	}
	fmt.Fprintf(io.Err, "Error: %s\n", e.What)
	for _, line := range [][2]string{{"Why", e.Why}, {"Fix", e.Fix}, {"Context", e.Context}, {"Request", e.RequestID}} {
		if line[1] != "" {
			fmt.Fprintf(io.Err, "%s: %s\n", line[0], line[1])
		}
	}
	return e.Exit
}

type errorJSON struct {
	What      string `json:"what"`
	Why       string `json:"why,omitempty"`
	Fix       string `json:"fix,omitempty"`
	Code      string `json:"code,omitempty"`
	Field     string `json:"field,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Context   string `json:"context,omitempty"`
	ExitCode  int    `json:"exit_code"`
}

// doing names what failed, in front of the error of a call.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{What: "could not " + what, cause: err}
}

// dress brings every error into the form that Report shows.
func (a *app) dress(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{What: "the command failed", cause: err}
	}
	e.asJSON = a.output == "json"
	if e.Exit == 0 {
		a.explain(e)
	}
	if a.profile != nil && e.Exit != exitUsage {
		e.Context = a.profile.source
	}
	return e
}

// explain fills in why, how to fix it and the exit code from the cause.
func (a *app) explain(e *Error) {
	var problem *apiclient.Error
	var network net.Error
	switch {
	case errors.As(e.cause, &problem):
		e.Why, e.Code, e.RequestID = problem.Detail, problem.Code, problem.RequestId
		if problem.Field != nil {
			e.Field = *problem.Field
		}
		if e.Exit = exitOf(problem); e.Fix == "" {
			e.Fix = fixOf(problem)
		}
	case errors.Is(e.cause, context.DeadlineExceeded), errors.As(e.cause, &network) && network.Timeout():
		e.Exit, e.Why = exitTimedOut, "no answer in time"
		e.Fix = "Try again; check the endpoint with: sluice context show"
	case errors.As(e.cause, &network):
		e.Exit, e.Why = exitFailed, e.cause.Error()
		e.Fix = "Check that the server runs and that the endpoint is right: sluice context show"
	default:
		e.Exit, e.Why = exitFailed, e.cause.Error()
	}
}

// exitCode is the code that err will end the command with.
func exitCode(err error) int {
	var e *Error
	var problem *apiclient.Error
	switch {
	case errors.As(err, &e) && e.Exit != 0:
		return e.Exit
	case errors.As(err, &problem):
		return exitOf(problem)
	}
	return exitFailed
}

func exitOf(p *apiclient.Error) int {
	switch {
	case p.Code == "quota_exceeded", p.Problem.Status == http.StatusTooManyRequests:
		return exitQuota
	case p.Problem.Status == http.StatusNotFound:
		return exitNotFound
	case p.Problem.Status == http.StatusBadRequest, p.Problem.Status == http.StatusUnprocessableEntity:
		return exitUsage
	case p.Problem.Status == http.StatusUnauthorized, p.Problem.Status == http.StatusForbidden,
		p.Problem.Status == http.StatusConflict, p.Problem.Status == http.StatusPreconditionFailed:
		return exitRefused
	case p.Problem.Status == http.StatusGatewayTimeout:
		return exitTimedOut
	}
	return exitFailed
}

// fixOf is the next step for a problem; the page of its code knows more.
func fixOf(p *apiclient.Error) string {
	page := ""
	if strings.HasPrefix(p.Type, "http") {
		page = " More: " + p.Type
	}
	switch {
	case p.Code == "step_up_required":
		return "Prove again who you are: sluice login. It counts for 15 minutes." + page
	case p.Code == "mfa_enrolment_required":
		return "Sign in at the console in a browser and add a second factor under your account, then: sluice login." + page
	case p.Code == "sso_required":
		return "Sign in at the console in a browser; programs and this command line use an API key: sluice login --key-id ID --key-secret-file FILE." + page
	case p.Problem.Status == http.StatusUnauthorized:
		return "Sign in again: sluice login." + page
	case p.Code == "quota_exceeded" && p.Quota != nil:
		return fmt.Sprintf("%d of %d %s are in use; delete some, or ask for a higher limit.%s", p.Quota.Used, p.Quota.Limit, p.Quota.Name, page)
	case p.RetryAfter != nil:
		return fmt.Sprintf("Try again in %d s.%s", *p.RetryAfter, page)
	case p.Code == "already_exists":
		return "Choose another name, or say --if-not-exists." + page
	case p.Code == "key_without_role":
		return "Make one that has: sluice key create NAME --control-role developer, signed in with: sluice login." + page
	case p.Code == "permission_denied":
		return "Ask an owner or admin of the tenant; sluice whoami shows what you may." + page
	case p.Code == "key_age":
		return "Say --expires, a time or a length within that age." + page
	case p.Code == "domain_not_verified":
		return "Add that record, then look again with --wait=10m." + page
	case p.Code == "sso_not_ready":
		return "Make one with: sluice sso create, then: sluice sso verify-domain PROVIDER DOMAIN." + page
	case p.Code == "deletion_protected":
		return "Turn the protection off first: update it with --deletion-protection=false." + page
	case p.Problem.Status == http.StatusPreconditionFailed:
		return "Somebody changed it at the same time; look at it and try again." + page
	}
	if page != "" {
		return "See " + p.Type
	}
	return ""
}
