package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/sluicemq/sluice/controlplane/api"
)

// notConfigured is reported when an operation needs the server while the
// provider block still holds unknown values.
const notConfigured = "The provider block holds values that are known only after apply. " +
	"Apply what they come from first (terraform apply -target=…), or set them from variables."

// base gives resources and data sources the session.
type base struct{ *session }

// Configure implements resource.ResourceWithConfigure.
func (b *base) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	b.take(req.ProviderData, &resp.Diagnostics)
}

// dataBase is base for data sources, whose Configure has another signature.
type dataBase struct{ base }

// Configure implements datasource.DataSourceWithConfigure.
func (b *dataBase) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	b.take(req.ProviderData, &resp.Diagnostics)
}

func (b *base) take(data any, diags *diag.Diagnostics) {
	if data == nil {
		return // validation runs before the provider is configured
	}
	s, ok := data.(*session)
	if !ok {
		diags.AddError("Wrong provider data", fmt.Sprintf("got %T, want *session; this is a bug of the provider", data))
		return
	}
	b.session = s
}

// ready reports whether the server can be called.
func (b *base) ready(diags *diag.Diagnostics) bool {
	if b.session == nil {
		diags.AddError("Provider not configured", notConfigured)
		return false
	}
	return true
}

const (
	// longestWait is how long the server may hold one write until brokers have
	// it; what is left of the wait is polled.
	longestWait = 10 * time.Second
	pollEvery   = time.Second
	// lookEvery is how long to wait before a domain is looked up again.
	lookEvery = 5 * time.Second
	// missesAllowed is how many reads after a create may miss the object.
	missesAllowed = 3

	defaultTimeout = 5 * time.Minute
)

// settle waits until the status is ready. It returns an error when the phase
// is failed or ctx ends first; read is called about once a second.
func settle(ctx context.Context, status api.ResourceStatus, read func(context.Context) (api.ResourceStatus, error)) error {
	misses := 0
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	for {
		reason := "no reason given"
		if status.Reason != nil && *status.Reason != "" {
			reason = *status.Reason
		}
		switch status.Phase {
		case api.Ready:
			return nil
		case api.Failed:
			return fmt.Errorf("the brokers could not take it: %s. It is kept in the state; apply again once the cause is gone", reason)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready in time: %s. It is kept in the state; apply again, or raise the timeout in the timeouts attribute", reason)
		case <-timer.C:
			timer.Reset(pollEvery)
		}
		next, err := read(ctx)
		switch {
		case err == nil:
			status, misses = next, 0
		case isNotFound(err) && misses < missesAllowed:
			misses++
		case ctx.Err() != nil:
			// The loop reports it with the last reason known.
		default:
			return err
		}
	}
}
