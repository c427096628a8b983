package policy

import "strings"

// Names in the user's world are bare. On brokers a topic or group is
// "<namespace id>%<name>", and the retry and dead-letter topics of a group are
// "%RETRY%<namespace id>%<group>" and "%DLQ%<namespace id>%<group>", just as
// RocketMQ clients with a namespace wrap them.
const (
	RetryPrefix = "%RETRY%"
	DLQPrefix   = "%DLQ%"
	separator   = "%"

	// MaxNameBytes bounds a topic's and a group's bare name.
	MaxNameBytes = 100
)

// reservedTopics and reservedGroups are names that RocketMQ keeps for itself.
var (
	reservedTopics = map[string]bool{
		"TBW102": true, "SELF_TEST_TOPIC": true, "BenchmarkTest": true, "OFFSET_MOVED_EVENT": true, "SCHEDULE_TOPIC_XXXX": true,
		"RMQ_SYS_TRANS_HALF_TOPIC": true, "RMQ_SYS_TRANS_OP_HALF_TOPIC": true, "TRANS_CHECK_MAX_TIME_TOPIC": true,
		"RMQ_SYS_TRACE_TOPIC": true, "CHECKPOINT_TOPIC": true, "DefaultCluster": true,
	}
	reservedGroups = map[string]bool{
		"TOOLS_CONSUMER": true, "FILTERSRV_CONSUMER": true, "SELF_TEST_C_GROUP": true, "SELF_TEST_P_GROUP": true,
		"CID_ONS-HTTP-PROXY": true, "CID_ONSAPI_PULL": true, "CID_ONSAPI_PERMISSION": true, "CID_ONSAPI_OWNER": true,
		"CID_RMQ_SYS_TRANS": true, "__MONITOR_CONSUMER": true, "CLIENT_INNER_PRODUCER": true,
	}
	reservedPrefixes = []string{"rmq_sys_", "RMQ_SYS_", "CID_RMQ_SYS_", "CID_ONSAPI_"}
)

// CheckTopicName returns a *Refusal unless name may be a tenant's topic.
func CheckTopicName(name string) error { return checkName("topic", name, reservedTopics) }

// CheckGroupName returns a *Refusal unless name may be a tenant's group.
func CheckGroupName(name string) error { return checkName("group", name, reservedGroups) }

func checkName(kind, name string, reserved map[string]bool) error {
	if err := checkCharacters(kind, name, MaxNameBytes); err != nil {
		return err
	}
	if reserved[name] {
		return refuse(CodeNameReserved, "%s name %q is reserved by RocketMQ: choose another name", kind, name)
	}
	for _, prefix := range reservedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return refuse(CodeNameReserved, "%s names that begin with %q are reserved by RocketMQ: choose another name", kind, prefix)
		}
	}
	return nil
}

func checkCharacters(kind, name string, limit int) error {
	if name == "" {
		return refuse(CodeNameInvalid, "%s name is empty", kind)
	}
	if len(name) > limit {
		return refuse(CodeNameInvalid, "%s name of %d bytes is over the limit of %d", kind, len(name), limit)
	}
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			continue
		}
		return refuse(CodeNameInvalid, "%s name %.100q holds a character outside [A-Za-z0-9_-]", kind, name)
	}
	return nil
}

// PhysicalName returns the store's name of a topic or group.
func PhysicalName(namespaceID, bare string) string { return namespaceID + separator + bare }

// SplitPhysical takes a store's topic or group name apart. Prefix is
// RetryPrefix, DLQPrefix or "". ok is false for a name of no namespace.
func SplitPhysical(physical string) (prefix, namespaceID, bare string, ok bool) {
	prefix, rest := splitPrefix(physical)
	namespaceID, bare, ok = strings.Cut(rest, separator)
	if !ok || namespaceID == "" {
		return "", "", "", false
	}
	return prefix, namespaceID, bare, true
}

func splitPrefix(name string) (prefix, rest string) {
	for _, prefix := range []string{RetryPrefix, DLQPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return prefix, rest
		}
	}
	return "", name
}
