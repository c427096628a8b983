import type { AuditSearch } from '../../search';

/** The filters of the page as the API takes them. */
export function auditQuery(search: AuditSearch) {
  return {
    from: search.from,
    to: search.to,
    actor_id: search.actor,
    action: search.action,
    target_id: search.target,
  };
}
