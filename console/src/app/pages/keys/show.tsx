import { Link } from '@tanstack/react-router';
import { useTranslation } from 'react-i18next';
import type { Schemas } from '../../../api/client';
import { useNamespaces, useTenant } from '../../data';
import { Badge, Time } from '../../ui';
import { endOf } from './values';

type Key = Schemas['ApiKey'];

const tone = { active: 'good', disabled: 'warn', expired: 'plain', revoked: 'bad' } as const;

/** The state, and what a rotation, a leak or a workload identity makes of it. */
export function KeyState({ apiKey: k }: { apiKey: Key }) {
  const { t } = useTranslation();
  return (
    <>
      <Badge tone={tone[k.state]}>{t(`key_state.${k.state}`)}</Badge>
      {k.revoked_reason === 'leaked' && (
        <div>
          <Badge tone="bad">{t('keys.leaked')}</Badge>
        </div>
      )}
      {k.replaced_by_key_id && (
        <div className="muted">
          {t(k.state === 'active' ? 'keys.being_replaced' : 'keys.replaced')}{' '}
          <Link to="/api-keys/$id" params={{ id: k.replaced_by_key_id }}>
            {t('keys.new_one')}
          </Link>
        </div>
      )}
      {k.workload_identity_id && <div className="muted">{t('keys.of_workload')}</div>}
    </>
  );
}

/** The namespaces and the role, a line each. */
export function ScopeSummary({ apiKey: k }: { apiKey: Pick<Key, 'scopes' | 'control_role'> }) {
  const { t } = useTranslation();
  const namespaces = useNamespaces();
  return (
    <>
      {k.scopes.map((s) => (
        <div key={JSON.stringify(s)}>
          {namespaces.data?.find((n) => n.id === s.namespace_id)?.name ?? s.namespace_id} {s.permissions.join(' ')}
          {s.cidrs && s.cidrs.length > 0 && (
            <div className="muted">
              {t('keys.from')} <code>{s.cidrs.join(' ')}</code>
            </div>
          )}
          {s.expires_at && (
            <div className="muted">
              {t('roles.until')} <Time at={s.expires_at} />
            </div>
          )}
        </div>
      ))}
      {k.control_role && <div>{t('keys.control', { role: t(`role.${k.control_role}`) })}</div>}
    </>
  );
}

/** When, from where and for what a key was used last. */
export function LastUse({ apiKey: k }: { apiKey: Key }) {
  const use = k.last_used;
  return (
    <>
      <Time at={use?.at ?? k.last_used_at} />
      {use?.address && (
        <div>
          <code>{use.address}</code>
        </div>
      )}
      {use?.operation && (
        <div className="muted">
          <Operation of={use} />
        </div>
      )}
    </>
  );
}

const messagePermissions = ['PUB', 'SUB', 'MANAGE', 'DESCRIBE'] as const;

/** What a use was: over the message protocols in words, over HTTP as the contract names it. */
export function Operation({ of }: { of: Schemas['ApiKeyUse'] }) {
  const { t } = useTranslation();
  const known = messagePermissions.find((p) => p === of.operation);
  return (
    <>
      {known ? t(`permission.${known}`) : <code>{of.operation}</code>} {of.topic && <code>{of.topic}</code>}
    </>
  );
}

/** When a key ends, and whether the age that the organisation allows ends it. */
export function KeyEnd({ apiKey: k }: { apiKey: Key }) {
  const { t } = useTranslation();
  const tenant = useTenant();
  const end = endOf(k, tenant.data?.security.max_key_age);
  return (
    <>
      <Time at={end?.at} />
      {end?.by === 'age' && <div className="muted">{t('keys.by_age')}</div>}
    </>
  );
}
