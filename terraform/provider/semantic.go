package provider

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// notation is a way to write a value as text in which several texts mean the
// same, such as 60m and 1h.
type notation struct {
	name  string
	value func(string) (int64, error)
}

var (
	durations  = &notation{name: "duration", value: parseDuration}
	timestamps = &notation{name: "timestamp", value: parseTimestamp}
)

var durationForm = regexp.MustCompile(`^(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?(?:([0-9]{1,9})ms)?$`)

// parseDuration returns milliseconds.
func parseDuration(text string) (int64, error) {
	parts := durationForm.FindStringSubmatch(text)
	if parts == nil || text == "" {
		return 0, fmt.Errorf("%q is no duration; write hours, minutes, seconds and milliseconds in this order, such as 72h, 1h30m or 500ms", text)
	}
	var sum int64
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration: %w", text, err)
		}
		sum += n * unit.Milliseconds()
	}
	return sum, nil
}

// durationOf is a length of time that was validated; 0 for none.
func durationOf(v notationValue) time.Duration {
	ms, _ := parseDuration(v.ValueString())
	return time.Duration(ms) * time.Millisecond
}

// parseTimestamp returns milliseconds since 1970, which is what the API keeps.
func parseTimestamp(text string) (int64, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time in RFC 3339, such as 2027-01-31T00:00:00Z", text)
	}
	return t.UnixMilli(), nil
}

// notationType is the attribute type of a notation.
type notationType struct {
	basetypes.StringType
	notation *notation
}

// notationValue is a string that is compared by what it means.
type notationValue struct {
	basetypes.StringValue
	notation *notation
}

var (
	_ basetypes.StringTypable                    = notationType{}
	_ basetypes.StringValuableWithSemanticEquals = notationValue{}
	_ xattr.ValidateableAttribute                = notationValue{}
)

func (n *notation) typ() notationType { return notationType{notation: n} }

func (n *notation) of(text string) notationValue {
	return notationValue{StringValue: basetypes.NewStringValue(text), notation: n}
}

func (n *notation) null() notationValue {
	return notationValue{StringValue: basetypes.NewStringNull(), notation: n}
}

func (t notationType) Equal(o attr.Type) bool {
	other, ok := o.(notationType)
	return ok && t.notation == other.notation
}

func (t notationType) String() string { return "sluice." + t.notation.name }

func (t notationType) ValueType(context.Context) attr.Value {
	return notationValue{notation: t.notation}
}

func (t notationType) ValueFromString(_ context.Context, in basetypes.StringValue) (basetypes.StringValuable, diag.Diagnostics) {
	return notationValue{StringValue: in, notation: t.notation}, nil
}

func (t notationType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	v, err := t.StringType.ValueFromTerraform(ctx, in)
	if err != nil {
		return nil, err
	}
	text, ok := v.(basetypes.StringValue)
	if !ok {
		return nil, fmt.Errorf("a %s is read from a string, not from %T", t.notation.name, v)
	}
	return notationValue{StringValue: text, notation: t.notation}, nil
}

func (v notationValue) Equal(o attr.Value) bool {
	other, ok := o.(notationValue)
	return ok && v.StringValue.Equal(other.StringValue)
}

func (v notationValue) Type(context.Context) attr.Type {
	return notationType{notation: v.notation}
}

// StringSemanticEquals lets the text in configuration and state stand when
// the server answers with another text for the same value.
func (v notationValue) StringSemanticEquals(_ context.Context, o basetypes.StringValuable) (bool, diag.Diagnostics) {
	other, ok := o.(notationValue)
	if !ok {
		return false, nil
	}
	return v.sameAs(other), nil
}

func (v notationValue) sameAs(other notationValue) bool {
	if v.StringValue.Equal(other.StringValue) {
		return true
	}
	if v.IsNull() || v.IsUnknown() || other.IsNull() || other.IsUnknown() {
		return false
	}
	a, errA := v.notation.value(v.ValueString())
	b, errB := other.notation.value(other.ValueString())
	return errA == nil && errB == nil && a == b
}

func (v notationValue) ValidateAttribute(_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse) {
	if v.IsNull() || v.IsUnknown() {
		return
	}
	if _, err := v.notation.value(v.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid "+v.notation.name, err.Error()+".")
	}
}

// likeState is a plan modifier that leaves the text of the state where the
// configuration only writes the same value in another way.
type likeState struct{ *notation }

func (n *notation) likeState() []planmodifier.String { return []planmodifier.String{likeState{n}} }

const likeStateRule = "keeps what is there while the configuration means the same"

func (likeState) Description(context.Context) string         { return likeStateRule }
func (likeState) MarkdownDescription(context.Context) string { return likeStateRule }

// PlanModifyString implements planmodifier.String.
func (m likeState) PlanModifyString(_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	planned := notationValue{StringValue: req.PlanValue, notation: m.notation}
	if !req.StateValue.IsNull() && planned.sameAs(notationValue{StringValue: req.StateValue, notation: m.notation}) {
		resp.PlanValue = req.StateValue
	}
}

// likeStateSet is likeState for a set of texts of this meaning.
type likeStateSet func(text string) (meaning string)

func (likeStateSet) Description(context.Context) string         { return likeStateRule }
func (likeStateSet) MarkdownDescription(context.Context) string { return likeStateRule }

// PlanModifySet implements planmodifier.Set.
func (m likeStateSet) PlanModifySet(_ context.Context, req planmodifier.SetRequest, resp *planmodifier.SetResponse) {
	if !req.StateValue.IsNull() && allKnown(req.PlanValue) && sameSet(req.PlanValue, req.StateValue, m) {
		resp.PlanValue = req.StateValue
	}
}

// likeStateText is likeState for a text of this meaning.
type likeStateText func(text string) (meaning string)

func (likeStateText) Description(context.Context) string         { return likeStateRule }
func (likeStateText) MarkdownDescription(context.Context) string { return likeStateRule }

// PlanModifyString implements planmodifier.String.
func (m likeStateText) PlanModifyString(_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if !req.StateValue.IsNull() && !req.PlanValue.IsUnknown() && m(req.PlanValue.ValueString()) == m(req.StateValue.ValueString()) {
		resp.PlanValue = req.StateValue
	}
}
