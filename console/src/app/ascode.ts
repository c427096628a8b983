import type { Schemas } from '../api/client';

/** The command line and the Terraform configuration that do what a form of the console does. */

/** A word of a shell command, quoted when the shell would read it as something else. */
export function shellWord(s: string): string {
  return /^[A-Za-z0-9_./:=@%+,-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`;
}

function command(words: (string | undefined | false)[]): string {
  return words.filter((w): w is string => typeof w === 'string' && w !== '').join(' ');
}

function flag(name: string, value: string | number | boolean | undefined): string | undefined {
  if (value === undefined || value === '' || value === false) {
    return undefined;
  }
  return value === true ? `--${name}` : `--${name} ${shellWord(String(value))}`;
}

/** A name that Terraform takes for a resource. */
export function hclName(s: string): string {
  const name = s.toLowerCase().replace(/[^a-z0-9_-]+/g, '_');
  return /^[a-z_]/.test(name) ? name : `_${name}`;
}

/** A quoted string of HCL; `${` and `%{` would begin a template. */
export function hclString(s: string): string {
  const escaped = JSON.stringify(s).slice(1, -1);
  return `"${escaped.replace(/[$%](?=\{)/g, (c) => c + c)}"`;
}

type Value = string | number | boolean | undefined | string[] | { raw: string };

function hclValue(v: Exclude<Value, undefined>): string {
  if (typeof v === 'string') {
    return hclString(v);
  }
  if (Array.isArray(v)) {
    return `[${v.map(hclString).join(', ')}]`;
  }
  return typeof v === 'object' ? v.raw : String(v);
}

function resource(kind: string, name: string, attributes: [string, Value][]): string {
  const set = attributes.filter((a): a is [string, Exclude<Value, undefined>] => {
    const v = a[1];
    return v !== undefined && v !== '' && v !== false && !(Array.isArray(v) && v.length === 0);
  });
  const width = Math.max(...set.map(([k]) => k.length));
  const lines = set.map(([k, v]) => `  ${k.padEnd(width)} = ${hclValue(v)}`);
  return `resource "${kind}" "${hclName(name)}" {\n${lines.join('\n')}\n}\n`;
}

/** A value that is not the default one; the default is left out, so that the code stays short. */
function other<T>(value: T | undefined, standard: T): T | undefined {
  return value === standard ? undefined : value;
}

function labelFlags(l: Record<string, string> | undefined) {
  return Object.entries(l ?? {}).map(([k, v]) => flag('label', `${k}=${v}`));
}

function labels(l: Record<string, string> | undefined): Value {
  const pairs = Object.entries(l ?? {}).map(([k, v]) => `${hclString(k)} = ${hclString(v)}`);
  return pairs.length > 0 ? { raw: `{ ${pairs.join(', ')} }` } : undefined;
}

export function namespaceCode(v: Schemas['NamespaceCreate']) {
  const name = v.name || 'NAME';
  return {
    cli: command(['sluice namespace create', shellWord(name), flag('description', v.description)]),
    hcl: resource('sluice_namespace', name, [
      ['name', name],
      ['description', v.description],
    ]),
  };
}

export function topicCode(ns: string, v: Schemas['TopicCreate']) {
  const name = v.name || 'NAME';
  return {
    cli: command([
      'sluice topic create',
      shellWord(name),
      flag('namespace', ns),
      flag('type', v.type),
      flag('queues', v.queues),
      flag('retention', v.retention),
      flag('max-message-bytes', other(v.max_message_bytes, 4_194_304)),
      flag('max-send-tps', other(v.max_send_tps, 0)),
      flag('perm', other(v.perm, 'rw')),
      flag('description', v.description),
      ...labelFlags(v.labels),
      flag('deletion-protection', v.deletion_protection),
    ]),
    hcl: resource('sluice_topic', name, [
      ['namespace_id', ns],
      ['name', name],
      ['type', v.type],
      ['queues', v.queues],
      ['retention', v.retention],
      ['max_message_bytes', other(v.max_message_bytes, 4_194_304)],
      ['max_send_tps', other(v.max_send_tps, 0)],
      ['perm', other(v.perm, 'rw')],
      ['description', v.description],
      ['labels', labels(v.labels)],
      ['deletion_protection', v.deletion_protection],
    ]),
  };
}

export function groupCode(ns: string, v: Schemas['GroupCreate']) {
  const name = v.name || 'NAME';
  const { max_attempts: attempts, strategy, delays } = v.retry ?? {};
  const retry = [
    attempts !== undefined && `max_attempts = ${attempts}`,
    strategy && `strategy = ${hclString(strategy)}`,
    delays && delays.length > 0 && `delays = ${hclValue(delays)}`,
  ].filter(Boolean);
  return {
    cli: command([
      'sluice group create',
      shellWord(name),
      flag('namespace', ns),
      flag('order', v.order),
      v.consume_enabled === false && '--consume-enabled=false',
      v.broadcast === false && '--broadcast=false',
      flag('max-attempts', attempts),
      flag('retry-strategy', strategy),
      flag('retry-delays', delays?.join(',')),
      flag('max-in-flight', other(v.max_in_flight, 10_000)),
      flag('max-recv-tps', other(v.max_recv_tps, 0)),
      flag('description', v.description),
      ...labelFlags(v.labels),
      flag('deletion-protection', v.deletion_protection),
    ]),
    hcl: resource('sluice_consumer_group', name, [
      ['namespace_id', ns],
      ['name', name],
      ['order', v.order],
      ['consume_enabled', v.consume_enabled === false ? { raw: 'false' } : undefined],
      ['broadcast', v.broadcast === false ? { raw: 'false' } : undefined],
      ['retry', retry.length > 0 ? { raw: `{ ${retry.join(', ')} }` } : undefined],
      ['max_in_flight', other(v.max_in_flight, 10_000)],
      ['max_recv_tps', other(v.max_recv_tps, 0)],
      ['description', v.description],
      ['labels', labels(v.labels)],
      ['deletion_protection', v.deletion_protection],
    ]),
  };
}

export function keyCode(v: Schemas['ApiKeyCreate']) {
  const name = v.name || 'NAME';
  const scopes = v.scopes ?? [];
  const list = (l: string[] | undefined) => (l && l.length > 0 ? l.map(hclString).join(', ') : undefined);
  const scopeBlocks = scopes.map((s) => {
    const parts = [
      `namespace_id = ${hclString(s.namespace_id)}`,
      `permissions = [${list(s.permissions) ?? ''}]`,
      list(s.topics) && `topics = [${list(s.topics)}]`,
      list(s.groups) && `groups = [${list(s.groups)}]`,
      list(s.cidrs) && `cidrs = [${list(s.cidrs)}]`,
      s.expires_at && `expires_at = ${hclString(s.expires_at)}`,
    ].filter(Boolean);
    return `{ ${parts.join(', ')} }`;
  });
  return {
    // The command makes keys for one namespace or none; a wider one is made here, by Terraform or by the API.
    cli:
      scopes.length > 1
        ? undefined
        : command([
            'sluice key create',
            shellWord(name),
            flag('description', v.description),
            flag('owner', v.owner_id),
            ...scopes.flatMap((s) => [
              flag('namespace', s.namespace_id),
              flag('permission', s.permissions.join(',')),
              flag('topics', s.topics?.join(',')),
              flag('groups', s.groups?.join(',')),
              flag('scope-cidr', s.cidrs?.join(',')),
              flag('scope-expires', s.expires_at),
            ]),
            scopes.length === 0 && '--no-scope',
            flag('control-role', v.control_role),
            flag('expires', v.expires_at),
            flag('allow-cidr', v.allowed_cidrs?.join(',')),
            v.secret && '--secret-file -',
          ]),
    hcl: resource('sluice_api_key', name, [
      ['owner_id', v.owner_id],
      ['name', name],
      ['scope', scopeBlocks.length > 0 ? { raw: `[${scopeBlocks.join(', ')}]` } : undefined],
      ['control_role', v.control_role],
      ['expires_at', v.expires_at],
      ['allowed_cidrs', v.allowed_cidrs],
      // Where the secret comes from is the reader's business; it stands in no text.
      ['secret_wo', v.secret ? { raw: 'var.secret' } : undefined],
      ['secret_version', v.secret ? 1 : undefined],
    ]),
  };
}
