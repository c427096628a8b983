/** The roles that a member can have in the whole tenant, from the one that may most. */
export const memberRoles = ['owner', 'admin', 'developer', 'viewer', 'billing', 'none'] as const;
