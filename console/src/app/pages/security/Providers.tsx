import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, got, type Schemas } from '../../../api/client';
import { useMay } from '../../data';
import { Badge, DataTable, MayButton, Nothing, Outcome, SectionHead } from '../../ui';
import { ProviderDialog } from './ProviderDialog';

type Provider = Schemas['IdentityProvider'];

/** Where the people of the organisation sign in, besides with a password. */
export function Providers() {
  const { t } = useTranslation();
  const navigate = useNavigate();
  const mayWrite = useMay('sso:write');
  const [creating, setCreating] = useState(false);
  const query = useQuery({
    queryKey: ['identity-providers'],
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/identity-providers', { params: { query: { page_token } }, signal }))),
  });
  return (
    <section>
      <SectionHead
        title={t('providers.title')}
        lead={t('providers.lead')}
        actions={
          <MayButton may={mayWrite} onClick={() => setCreating(true)} data-testid="create-provider">
            {t('providers.create')}
          </MayButton>
        }
      />
      <Outcome query={query} isEmpty={(d) => d.length === 0} empty={<Nothing text={t('providers.empty')} />}>
        {(items) => (
          <DataTable<Provider>
            label={t('providers.title')}
            rowKey="id"
            dataSource={items}
            pagination={false}
            columns={[
              {
                title: t('field.name'),
                render: (_, p) => (
                  <Link to="/identity-providers/$id" params={{ id: p.id }}>
                    {p.name}
                  </Link>
                ),
              },
              { title: t('workloads.issuer'), render: (_, p) => <code>{p.issuer}</code> },
              { title: t('providers.domains'), render: (_, p) => <Domains provider={p} /> },
              { title: t('field.status'), render: (_, p) => <Enabled provider={p} /> },
            ]}
          />
        )}
      </Outcome>
      {creating && (
        <ProviderDialog
          onClose={() => setCreating(false)}
          onMade={(p) => void navigate({ to: '/identity-providers/$id', params: { id: p.id } })}
        />
      )}
    </section>
  );
}

function Domains({ provider }: { provider: Provider }) {
  const { t } = useTranslation();
  if (provider.domains.length === 0) {
    return <span className="muted">{t('state.none')}</span>;
  }
  return (
    <>
      {provider.domains.map((d) => (
        <div key={d.domain}>
          {d.domain}{' '}
          <Badge tone={d.verified_at ? 'good' : 'warn'}>
            {t(d.verified_at ? 'providers.verified' : 'providers.unverified')}
          </Badge>
        </div>
      ))}
    </>
  );
}

export function Enabled({ provider }: { provider: Provider }) {
  const { t } = useTranslation();
  return (
    <>
      <Badge tone={provider.enabled ? 'good' : 'warn'}>
        {t(provider.enabled ? 'providers.enabled' : 'providers.disabled')}
      </Badge>{' '}
      {!provider.owner_approved && <Badge tone="warn">{t('providers.not_approved')}</Badge>}
    </>
  );
}
