/** Reads what the address says about a page. Anything odd in it is left out, so that an old or mistyped link still opens. */

type Raw = Record<string, unknown>;

/** A text; the router hands numbers and booleans in an address over as such, so they are turned back. */
export function textIn(raw: Raw, key: string, max = 4096): string | undefined {
  const v = raw[key];
  const s = typeof v === 'string' ? v : typeof v === 'number' || typeof v === 'boolean' ? String(v) : '';
  return s !== '' && s.length <= max ? s : undefined;
}

export function oneOf<T extends string>(raw: Raw, key: string, all: readonly T[]): T | undefined {
  return all.find((a) => a === raw[key]);
}

export function timeIn(raw: Raw, key: string): string | undefined {
  const s = textIn(raw, key, 40);
  const d = s ? new Date(s) : undefined;
  return d && !Number.isNaN(d.getTime()) ? d.toISOString() : undefined;
}

/** Without the entries that have no value, so that addresses stay short. */
export function compact<T extends object>(o: T): T {
  return Object.fromEntries(Object.entries(o).filter(([, v]) => v !== undefined && v !== '')) as T;
}

export const topicTypes = ['NORMAL', 'FIFO', 'DELAY', 'TRANSACTION'] as const;
export const keyStates = ['active', 'disabled', 'expired', 'revoked'] as const;
export const topicTabs = ['overview', 'messages', 'send', 'tail', 'access'] as const;
export const groupTabs = ['lag', 'overview', 'access'] as const;
export const lookups = ['time', 'key', 'id', 'offset'] as const;
export const grains = ['minute', 'hour', 'day', 'month'] as const;
export const dimensions = ['topic', 'group', 'api_key', 'namespace', 'class', 'protocol'] as const;
export const ranges = ['1h', '24h', '7d', 'month', 'last_month', 'custom'] as const;
export const metrics = [
  'messages_in',
  'messages_out',
  'bytes_in',
  'bytes_out',
  'units4k_in',
  'units4k_out',
  'api_calls',
  'rejected',
] as const;

export interface TopicsSearch {
  prefix?: string;
  type?: (typeof topicTypes)[number];
  page?: string;
}

export function topicsSearch(raw: Raw): TopicsSearch {
  return compact({
    prefix: textIn(raw, 'prefix', 100),
    type: oneOf(raw, 'type', topicTypes),
    page: textIn(raw, 'page', 1024),
  });
}

export interface TopicSearch {
  tab?: (typeof topicTabs)[number];
  by?: (typeof lookups)[number];
  from?: string;
  to?: string;
  key?: string;
  id?: string;
  queue?: string;
  offset?: string;
  page?: string;
}

export function topicSearch(raw: Raw): TopicSearch {
  return compact({
    tab: oneOf(raw, 'tab', topicTabs),
    by: oneOf(raw, 'by', lookups),
    from: timeIn(raw, 'from'),
    to: timeIn(raw, 'to'),
    key: textIn(raw, 'key', 1024),
    id: textIn(raw, 'id', 128),
    queue: textIn(raw, 'queue', 5),
    offset: textIn(raw, 'offset', 20),
    page: textIn(raw, 'page', 1024),
  });
}

export interface ListSearch {
  prefix?: string;
  page?: string;
}

export function listSearch(raw: Raw): ListSearch {
  return compact({ prefix: textIn(raw, 'prefix', 100), page: textIn(raw, 'page', 1024) });
}

export const aclResources = ['topic', 'group', 'namespace'] as const;

export interface AccessSearch {
  principal?: string;
  resource?: (typeof aclResources)[number];
  page?: string;
}

export function accessSearch(raw: Raw): AccessSearch {
  const principal = textIn(raw, 'principal', 44);
  return compact({
    principal: principal && /^(\*|(slk|usr|sa)_[A-Za-z0-9]{12,40})$/.test(principal) ? principal : undefined,
    resource: oneOf(raw, 'resource', aclResources),
    page: textIn(raw, 'page', 1024),
  });
}

export interface GroupSearch {
  tab?: (typeof groupTabs)[number];
}

export function groupSearch(raw: Raw): GroupSearch {
  return compact({ tab: oneOf(raw, 'tab', groupTabs) });
}

export interface KeysSearch {
  name?: string;
  state?: (typeof keyStates)[number];
  ns?: string;
  page?: string;
}

export function keysSearch(raw: Raw): KeysSearch {
  return compact({
    name: textIn(raw, 'name', 100),
    state: oneOf(raw, 'state', keyStates),
    ns: textIn(raw, 'ns', 16),
    page: textIn(raw, 'page', 1024),
  });
}

export interface UsageSearch {
  range?: (typeof ranges)[number];
  from?: string;
  to?: string;
  grain?: (typeof grains)[number];
  by?: (typeof dimensions)[number];
  metric?: (typeof metrics)[number];
  ns?: string;
  page?: string;
}

export function usageSearch(raw: Raw): UsageSearch {
  return compact({
    range: oneOf(raw, 'range', ranges),
    from: timeIn(raw, 'from'),
    to: timeIn(raw, 'to'),
    grain: oneOf(raw, 'grain', grains),
    by: oneOf(raw, 'by', dimensions),
    metric: oneOf(raw, 'metric', metrics),
    ns: textIn(raw, 'ns', 16),
    page: textIn(raw, 'page', 1024),
  });
}

export interface CostsSearch {
  month?: string;
}

export function costsSearch(raw: Raw): CostsSearch {
  const month = textIn(raw, 'month', 7);
  return month && /^20\d{2}-(0[1-9]|1[0-2])$/.test(month) ? { month } : {};
}

export interface AccountSearch {
  /** Came here because the tenant asks for a second factor. */
  enrol?: boolean;
}

export function accountSearch(raw: Raw): AccountSearch {
  return raw.enrol === true ? { enrol: true } : {};
}

export interface RolesSearch {
  /** Only bindings of this person or service account. */
  principal?: string;
  page?: string;
}

export function rolesSearch(raw: Raw): RolesSearch {
  const principal = textIn(raw, 'principal', 40);
  return compact({
    principal: principal && /^(usr|sa)_[0-9A-Z]{26}$/.test(principal) ? principal : undefined,
    page: textIn(raw, 'page', 1024),
  });
}

export interface AuditSearch {
  from?: string;
  to?: string;
  actor?: string;
  action?: string;
  target?: string;
  page?: string;
}

export function auditSearch(raw: Raw): AuditSearch {
  return compact({
    from: timeIn(raw, 'from'),
    to: timeIn(raw, 'to'),
    actor: textIn(raw, 'actor', 64),
    action: textIn(raw, 'action', 64),
    target: textIn(raw, 'target', 128),
    page: textIn(raw, 'page', 1024),
  });
}
