import { expect, it } from 'vitest';
import { groupCode, hclName, hclString, keyCode, shellWord, topicCode } from './ascode';

it('writes a topic as a command and as Terraform', () => {
  const code = topicCode('k7m2q9x4w1bz', { name: 'orders', type: 'FIFO', queues: 8, retention: '72h' });
  expect(code.cli).toBe('sluice topic create orders --namespace k7m2q9x4w1bz --type FIFO --queues 8 --retention 72h');
  expect(code.hcl).toBe(`resource "sluice_topic" "orders" {
  namespace_id = "k7m2q9x4w1bz"
  name         = "orders"
  type         = "FIFO"
  queues       = 8
  retention    = "72h"
}
`);
});

it('writes what is not the default, and only that', () => {
  const { hcl } = topicCode('k7m2q9x4w1bz', {
    name: 'orders',
    max_message_bytes: 4_194_304,
    max_send_tps: 100,
    perm: 'r',
    labels: { team: 'checkout' },
    deletion_protection: true,
  });
  expect(hcl).not.toContain('max_message_bytes');
  for (const line of ['max_send_tps        = 100', 'perm                = "r"', '{ "team" = "checkout" }', '= true']) {
    expect(hcl).toContain(line);
  }
  expect(groupCode('k7m2q9x4w1bz', { name: 'g', consume_enabled: false, broadcast: true }).hcl).toMatch(
    /consume_enabled = false\n}/,
  );
});

it('writes groups and keys', () => {
  expect(groupCode('k7m2q9x4w1bz', { name: 'billing', retry: { max_attempts: 3 } }).hcl).toContain(
    'retry        = { max_attempts = 3 }',
  );
  const key = keyCode({
    name: 'my key',
    scopes: [{ namespace_id: 'k7m2q9x4w1bz', permissions: ['PUB', 'SUB'], topics: ['orders*'] }],
    allowed_cidrs: ['203.0.113.0/24'],
  });
  expect(key.cli).toBe(
    "sluice key create 'my key' --namespace k7m2q9x4w1bz --permission PUB,SUB --topics 'orders*' --allow-cidr 203.0.113.0/24",
  );
  expect(key.hcl).toContain('resource "sluice_api_key" "my_key"');
  const scope = { namespace_id: 'k7m2q9x4w1bz', permissions: ['PUB' as const] };
  expect(keyCode({ name: 'a', scopes: [], control_role: 'viewer' }).cli).toBe(
    'sluice key create a --no-scope --control-role viewer',
  );
  const narrow = { ...scope, cidrs: ['10.0.0.0/8'], expires_at: '2027-01-01T00:00:00.000Z' };
  const brought = keyCode({ name: 'a', scopes: [narrow], secret: 'EXAMPLE-ONLY' });
  expect(brought.cli).toBe(
    'sluice key create a --namespace k7m2q9x4w1bz --permission PUB --scope-cidr 10.0.0.0/8 --scope-expires 2027-01-01T00:00:00.000Z --secret-file -',
  );
  expect(brought.hcl).toContain('cidrs = ["10.0.0.0/8"], expires_at = "2027-01-01T00:00:00.000Z"');
  expect(brought.cli + brought.hcl).not.toContain('EXAMPLE');
  expect(keyCode({ name: 'a', scopes: [scope, { ...scope, namespace_id: 'abcdefgh12' }] }).cli).toBeUndefined();
  expect(key.hcl).toContain(
    'scope         = [{ namespace_id = "k7m2q9x4w1bz", permissions = ["PUB", "SUB"], topics = ["orders*"] }]',
  );
});

it('quotes what a shell or Terraform would read as something else', () => {
  expect(shellWord("it's $HOME")).toBe("'it'\\''s $HOME'");
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the template of another language is meant
  expect(hclString('${var.x} "q" %{if}')).toBe('"$${var.x} \\"q\\" %%{if}"');
  expect(hclName('9 lives')).toBe('_9_lives');
});
