package auth

import (
	"slices"

	"github.com/sluicemq/sluice/tenant"
)

// Operation says who may call one operation of the API.
type Operation struct {
	ID         string // operationId of the contract
	Permission Permission
	StepUp     bool // a person must have proved lately who they are
	Session    bool // only for a person who is signed in; a key is refused
}

// Allows answers whether a role in the whole tenant is enough for o; public
// operations allow everybody.
func (o Operation) Allows(role tenant.Role) bool {
	return o.Permission == PermissionPublic || o.Permission == PermissionSelf || slices.Contains(roles[role], o.Permission)
}

// Operations is the table of all operations, by the tags of the contract. A test
// holds it against openapi.yaml, so that none is added without a decision here.
func Operations() []Operation { return slices.Clone(operations) }

// OperationOf finds an operation; false for one that is not in the table.
func OperationOf(id string) (Operation, bool) {
	i := slices.IndexFunc(operations, func(o Operation) bool { return o.ID == id })
	if i < 0 {
		return Operation{}, false
	}
	return operations[i], true
}

var operations = []Operation{
	{ID: "signUp", Permission: PermissionPublic},
	{ID: "verifySignUp", Permission: PermissionPublic},
	{ID: "signIn", Permission: PermissionPublic},
	{ID: "signInMfa", Permission: PermissionPublic},
	{ID: "switchTenant", Permission: PermissionSelf, Session: true},
	{ID: "refreshSession", Permission: PermissionPublic},
	{ID: "signOut", Permission: PermissionPublic},
	{ID: "requestPasswordReset", Permission: PermissionPublic},
	{ID: "confirmPasswordReset", Permission: PermissionPublic},
	{ID: "beginStepUp", Permission: PermissionSelf, Session: true},
	{ID: "stepUp", Permission: PermissionSelf, Session: true},
	{ID: "listSessions", Permission: PermissionSelf},
	{ID: "endSession", Permission: PermissionSelf, Session: true},
	{ID: "endOtherSessions", Permission: PermissionSelf, Session: true},
	{ID: "lookUpInvitation", Permission: PermissionPublic},
	{ID: "acceptInvitation", Permission: PermissionPublic},
	{ID: "createToken", Permission: PermissionPublic},
	{ID: "revokeToken", Permission: PermissionPublic},
	{ID: "getJwks", Permission: PermissionPublic},
	{ID: "undoEmail", Permission: PermissionPublic},
	{ID: "reopenAccount", Permission: PermissionPublic},

	{ID: "getMe", Permission: PermissionSelf},
	{ID: "updateMe", Permission: PermissionSelf},
	{ID: "deleteMe", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "changePassword", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "changeEmail", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "confirmEmail", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "listMfaFactors", Permission: PermissionSelf},
	{ID: "createMfaFactor", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "deleteMfaFactor", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "beginWebauthn", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "confirmWebauthn", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "confirmMfaFactor", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "renewRecoveryCodes", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "listTenants", Permission: PermissionSelf},
	{ID: "createTenant", Permission: PermissionSelf, Session: true},
	{ID: "getTenant", Permission: "tenant:read"},
	{ID: "updateTenant", Permission: "tenant:write"},

	{ID: "listMembers", Permission: "member:read"},
	{ID: "leaveTenant", Permission: PermissionSelf, Session: true},
	{ID: "getMember", Permission: "member:read"},
	{ID: "updateMember", Permission: "member:write", StepUp: true},
	{ID: "removeMember", Permission: "member:write", StepUp: true},
	{ID: "listInvitations", Permission: "member:read"},
	{ID: "createInvitation", Permission: "member:write", StepUp: true},
	{ID: "getInvitation", Permission: "member:read"},
	{ID: "deleteInvitation", Permission: "member:write"},
	{ID: "resendInvitation", Permission: "member:write"},
	{ID: "listRoles", Permission: "role:read"},
	{ID: "createRole", Permission: "role:write", StepUp: true},
	{ID: "getRole", Permission: "role:read"},
	{ID: "updateRole", Permission: "role:write", StepUp: true},
	{ID: "deleteRole", Permission: "role:write", StepUp: true},
	{ID: "listRoleBindings", Permission: "role:read"},
	{ID: "createRoleBinding", Permission: "role:write", StepUp: true},
	{ID: "getRoleBinding", Permission: "role:read"},
	{ID: "updateRoleBinding", Permission: "role:write", StepUp: true},
	{ID: "deleteRoleBinding", Permission: "role:write", StepUp: true},

	{ID: "startSso", Permission: PermissionPublic},
	{ID: "finishSso", Permission: PermissionPublic},
	{ID: "backchannelLogout", Permission: PermissionPublic},
	{ID: "listIdentityProviders", Permission: "sso:read"},
	{ID: "createIdentityProvider", Permission: "sso:write", StepUp: true},
	{ID: "getIdentityProvider", Permission: "sso:read"},
	{ID: "updateIdentityProvider", Permission: "sso:write", StepUp: true},
	{ID: "deleteIdentityProvider", Permission: "sso:write", StepUp: true},
	{ID: "verifyIdentityDomain", Permission: "sso:write", StepUp: true},
	{ID: "unlinkIdentity", Permission: "sso:write", StepUp: true},

	{ID: "listServiceAccounts", Permission: "service_account:read"},
	{ID: "createServiceAccount", Permission: "service_account:write"},
	{ID: "getServiceAccount", Permission: "service_account:read"},
	{ID: "updateServiceAccount", Permission: "service_account:write"},
	{ID: "deleteServiceAccount", Permission: "service_account:write"},
	{ID: "listWorkloadIdentities", Permission: "service_account:read"},
	{ID: "createWorkloadIdentity", Permission: "service_account:write", StepUp: true},
	{ID: "getWorkloadIdentity", Permission: "service_account:read"},
	{ID: "updateWorkloadIdentity", Permission: "service_account:write", StepUp: true},
	{ID: "deleteWorkloadIdentity", Permission: "service_account:write", StepUp: true},

	{ID: "listApiKeys", Permission: "key:read"},
	{ID: "createApiKey", Permission: "key:write", StepUp: true},
	{ID: "getApiKey", Permission: "key:read"},
	{ID: "updateApiKey", Permission: "key:write"},
	{ID: "deleteApiKey", Permission: "key:write"},
	{ID: "rotateApiKey", Permission: "key:write", StepUp: true},
	{ID: "revokeApiKey", Permission: "key:write"},
	{ID: "createKeyToken", Permission: PermissionSelf, StepUp: true, Session: true},
	{ID: "reportLeak", Permission: PermissionPublic},

	{ID: "listNamespaces", Permission: "namespace:read"},
	{ID: "createNamespace", Permission: "namespace:write"},
	{ID: "getNamespace", Permission: "namespace:read"},
	{ID: "updateNamespace", Permission: "namespace:write"},
	{ID: "deleteNamespace", Permission: "namespace:write"},

	{ID: "listAcls", Permission: "acl:read"},
	{ID: "createAcl", Permission: "acl:write"},
	{ID: "getAcl", Permission: "acl:read"},
	{ID: "updateAcl", Permission: "acl:write"},
	{ID: "deleteAcl", Permission: "acl:write"},
	{ID: "testAcl", Permission: "acl:read"},
	{ID: "listAccess", Permission: "acl:read"},

	{ID: "listTopics", Permission: "topic:read"},
	{ID: "createTopic", Permission: "topic:write"},
	{ID: "getTopic", Permission: "topic:read"},
	{ID: "updateTopic", Permission: "topic:write"},
	{ID: "deleteTopic", Permission: "topic:write"},
	{ID: "batchGetTopics", Permission: "topic:read"},

	{ID: "listMessages", Permission: "message:read"},
	{ID: "sendMessage", Permission: "message:write"},
	{ID: "tailMessages", Permission: "message:read"},

	{ID: "listGroups", Permission: "group:read"},
	{ID: "createGroup", Permission: "group:write"},
	{ID: "getGroup", Permission: "group:read"},
	{ID: "updateGroup", Permission: "group:write"},
	{ID: "deleteGroup", Permission: "group:write"},
	{ID: "getGroupLag", Permission: "group:read"},
	{ID: "resetGroupOffset", Permission: "group:write"},

	{ID: "listTransactions", Permission: "topic:read"},
	{ID: "commitTransaction", Permission: "message:write"},
	{ID: "rollbackTransaction", Permission: "message:write"},
	{ID: "checkTransaction", Permission: "message:write"},

	{ID: "listTenantQuotas", Permission: "quota:read"},
	{ID: "listNamespaceQuotas", Permission: "quota:read"},

	{ID: "getUsage", Permission: "usage:read"},
	{ID: "getUsageCsv", Permission: "usage:read"},
	{ID: "getCosts", Permission: "billing:read"},
	{ID: "getCostsCsv", Permission: "billing:read"},
	{ID: "listPlans", Permission: "tenant:read"},
	{ID: "listPriceBooks", Permission: "billing:read"},

	{ID: "listAuditEvents", Permission: "audit:read"},
	{ID: "verifyAuditEvents", Permission: "audit:read"},

	{ID: "getErrorPage", Permission: PermissionPublic},
	{ID: "getClientConfig", Permission: "namespace:read"},
}
