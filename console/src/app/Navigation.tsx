import { Link, type LinkProps, useLocation, useParams } from '@tanstack/react-router';
import { type ReactNode, useEffect, useId, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { Go } from '../light/ui';
import { lastNamespace, rememberNamespace, useMe, useNamespaces } from './data';
import { mayDo, type Part } from './may';

/** The namespace in the address, else the one looked at last, else the first. */
export function useCurrentNamespace(): string | undefined {
  const { ns } = useParams({ strict: false });
  const all = useNamespaces();
  useEffect(() => {
    if (ns) {
      rememberNamespace(ns);
    }
  }, [ns]);
  if (ns) {
    return ns;
  }
  const last = lastNamespace();
  return all.data?.find((n) => n.id === last)?.id ?? all.data?.[0]?.id;
}

/** The ways to all pages that the user may look at. */
export function Navigation() {
  const { t } = useTranslation();
  const ns = useCurrentNamespace();
  const me = useMe();
  const may = (permission: string, part?: Part) => me.data !== undefined && mayDo(me.data, permission, part);
  const path = useLocation({ select: (l) => l.pathname });
  const [open, setOpen] = useState(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page closes the menu
  useEffect(() => setOpen(false), [path]);
  return (
    <nav className={open ? 'side open' : 'side'} aria-label={t('nav.label')}>
      <button type="button" className="side-toggle" aria-expanded={open} onClick={() => setOpen(!open)}>
        {t('nav.menu')}
      </button>
      {ns && (
        <Section title={t('nav.namespace')}>
          {may('topic:read', { ns }) && <To to="/n/$ns/topics" params={{ ns }} text={t('nav.topics')} />}
          {may('group:read', { ns }) && <To to="/n/$ns/groups" params={{ ns }} text={t('nav.groups')} />}
          {may('acl:read', { ns }) && <To to="/n/$ns/access" params={{ ns }} text={t('nav.access')} />}
        </Section>
      )}
      <Section title={t('nav.organisation')}>
        {may('namespace:read') && <To to="/namespaces" text={t('nav.namespaces')} />}
        {may('key:read') && <To to="/api-keys" text={t('nav.keys')} />}
        {may('service_account:read') && <To to="/service-accounts" text={t('nav.service_accounts')} />}
        {may('member:read') && <To to="/members" text={t('nav.members')} />}
        {may('role:read') && <To to="/roles" text={t('nav.roles')} />}
        {may('tenant:read') && <To to="/security" text={t('nav.security')} />}
        {may('audit:read') && <To to="/audit" text={t('nav.audit')} />}
        {may('usage:read') && <To to="/usage" text={t('nav.usage')} />}
        {may('billing:read') && <To to="/costs" text={t('nav.costs')} />}
        {may('quota:read') && <To to="/quotas" text={t('nav.quotas')} />}
      </Section>
      <Section title={t('nav.you')}>
        <To to="/account" text={t('nav.account')} />
        {ns && may('message:write', { ns }) && (
          <li>
            <Go to={`/start?ns=${ns}`}>{t('nav.start')}</Go>
          </li>
        )}
      </Section>
    </nav>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <div className="side-section">
      <p className="side-title" id={id}>
        {title}
      </p>
      <ul aria-labelledby={id}>{children}</ul>
    </div>
  );
}

function To({ text, ...link }: LinkProps & { text: string }) {
  return (
    <li>
      <Link {...link} activeOptions={{ includeSearch: false }}>
        {text}
      </Link>
    </li>
  );
}
