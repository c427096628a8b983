package provider

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicemq/sluice/controlplane/api"
	"github.com/sluicemq/sluice/controlplane/apiclient"
	"github.com/sluicemq/sluice/internal/standalone"
	"github.com/sluicemq/sluice/internal/testcluster"
)

var inviteLink = regexp.MustCompile(`/invitations/accept\?token=(sli_[A-Za-z0-9_-]{43})`)

// inviteToken is that of the newest mail to an address.
func inviteToken(t *testing.T, mails, email string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(mails, "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Backward(paths) {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mail.ReadMessage(file)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, m.Body))
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		if found := inviteLink.FindSubmatch(body); found != nil && m.Header.Get("To") == email {
			return string(found[1])
		}
	}
	t.Fatalf("no invitation of %s in %s", email, mails)
	return ""
}

func walkInvitation(t *testing.T, s server, mails string) {
	w, client := newWorkspace(t, s), s.client(t)
	const address = "sluice_member_invitation.grace"
	config := func(email, role, more string) string {
		return fmt.Sprintf("resource \"sluice_member_invitation\" \"grace\" {\n  email = %q\n  role = %q\n  %s\n}\n", email, role, more)
	}
	w.config("%s", config("Grace@Example.com", "viewer", ""))
	w.apply()
	first := w.text(address, "id")
	importsAs(t, s, w, config("grace@example.COM", "viewer", ""), address, first, "email")
	again := newWorkspace(t, s)
	again.config("%s", config("grace@example.com", "viewer", ""))
	again.fails(applyArgs, "is invited already", "terraform import sluice_member_invitation.<name of the resource block> "+first)

	// While nobody has accepted, another role is another invitation.
	w.config("%s", config("Grace@Example.com", "developer", ""))
	wantAll(t, w.planDiffers(), "1 to add, 0 to change, 1 to destroy")
	w.apply()
	if err := apiclient.Done(client.DeleteInvitationWithResponse(t.Context(), w.text(address, "id"), nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()

	accept := func() string {
		t.Helper()
		in := api.InvitationAccept{Token: inviteToken(t, mails, "grace@example.com"), Password: ptr("correct horse battery staple"), Name: ptr("Grace")}
		if _, err := apiclient.OK(client.AcceptInvitationWithResponse(t.Context(), nil, in)); err != nil {
			t.Fatal(err)
		}
		w.must("refresh")
		w.planEmpty()
		return w.text(address, "accepted_by")
	}
	grace := accept()
	member := func() api.Member {
		t.Helper()
		m, err := apiclient.OK(client.GetMemberWithResponse(t.Context(), grace))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	w.config("%s", config("Grace@Example.com", "admin", `on_destroy = "remove"`))
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if m := member(); m.Role != "admin" {
		t.Errorf("got role %s", m.Role)
	}
	if _, err := apiclient.OK(client.UpdateMemberWithResponse(t.Context(), grace, nil, api.MemberUpdate{Role: "viewer"})); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "0 to add, 1 to change, 0 to destroy")
	w.apply()
	if m := member(); m.Role != "admin" {
		t.Errorf("got role %s after the repair", m.Role)
	}
	// Who was removed is invited again.
	if err := apiclient.Done(client.RemoveMemberWithResponse(t.Context(), grace, nil)); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()
	grace = accept()
	w.config("%s", config("ada@example.com", "root", ""))
	w.fails(planArgs, "value must be one of", "role =")
	w.config("%s", config("terraform@example.com", "viewer", `on_destroy = "remove"`))
	w.fails(applyArgs, "is a member already")
	if err := apiclient.Done(client.GetMemberWithResponse(t.Context(), grace)); !isNotFound(err) {
		t.Errorf("got %v for the member after destroy, want not found", err)
	}
}

// Nobody answers for ever: an invitation that ran out is made again.
func TestAcceptance_invitationRunsOut(t *testing.T) {
	var ahead atomic.Int64
	c := testcluster.Start(t, func(_ *standalone.Config, d *standalone.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	w := newWorkspace(t, tenantOf(t, c))
	w.config("resource \"sluice_member_invitation\" \"grace\" {\n  email = \"grace@example.com\"\n  role  = \"viewer\"\n}\n")
	w.apply()
	first := w.text("sluice_member_invitation.grace", "id")
	ahead.Store(int64(8 * 24 * time.Hour))
	wantAll(t, w.planDiffers(), "Deleted outside Terraform", "1 to add, 0 to change, 0 to destroy")
	w.apply()
	if got := w.text("sluice_member_invitation.grace", "id"); got == first {
		t.Error("the invitation that ran out is still the one in the state")
	}
}
