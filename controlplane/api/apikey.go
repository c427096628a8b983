package api

// WithSecret is k as the one answer shows it that carries the secret.
func (k ApiKey) WithSecret(secret string) ApiKeyWithSecret {
	return ApiKeyWithSecret{Id: k.Id, Secret: secret, OwnerId: k.OwnerId, Name: k.Name, Description: k.Description, Scopes: k.Scopes, ControlRole: k.ControlRole,
		AllowedCidrs: k.AllowedCidrs, ExpiresAt: k.ExpiresAt, Disabled: k.Disabled, State: k.State, Hint: k.Hint, LastUsedAt: k.LastUsedAt, RevokedAt: k.RevokedAt, RevokedReason: k.RevokedReason, LastUsed: k.LastUsed,
		ReplacesKeyId: k.ReplacesKeyId, ReplacedByKeyId: k.ReplacedByKeyId, WorkloadIdentityId: k.WorkloadIdentityId, Status: k.Status, CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt, Revision: k.Revision}
}

// WithoutSecret is k as every later answer shows it.
func (k ApiKeyWithSecret) WithoutSecret() ApiKey {
	return ApiKey{Id: k.Id, OwnerId: k.OwnerId, Name: k.Name, Description: k.Description, Scopes: k.Scopes, ControlRole: k.ControlRole,
		AllowedCidrs: k.AllowedCidrs, ExpiresAt: k.ExpiresAt, Disabled: k.Disabled, State: k.State, Hint: k.Hint, LastUsedAt: k.LastUsedAt, RevokedAt: k.RevokedAt, RevokedReason: k.RevokedReason, LastUsed: k.LastUsed,
		ReplacesKeyId: k.ReplacesKeyId, ReplacedByKeyId: k.ReplacedByKeyId, WorkloadIdentityId: k.WorkloadIdentityId, Status: k.Status, CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt, Revision: k.Revision}
}
