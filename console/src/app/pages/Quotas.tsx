import { useQuery } from '@tanstack/react-query';
import { Progress, Select } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { allPages, api, got, type Schemas } from '../../api/client';
import { formatCount } from '../../lib/format';
import { formatQuota, isQuotaName, isRateUnit } from '../../lib/quota';
import { lastNamespace, useLocale, useNamespaces } from '../data';
import { Nothing, Outcome, PageHead } from '../ui';

/** What is allowed and how much of it is used, for the tenant and for one namespace. */
export function Quotas() {
  const { t } = useTranslation();
  const namespaces = useNamespaces();
  const [chosen, setChosen] = useState<string | undefined>(lastNamespace);
  const ns = namespaces.data?.find((n) => n.id === chosen)?.id ?? namespaces.data?.[0]?.id;
  const tenant = useQuery({
    queryKey: ['quotas', 'tenant'],
    queryFn: ({ signal }) =>
      allPages((page_token) => got(api.GET('/v1/quotas', { params: { query: { page_token } }, signal }))),
  });
  const namespace = useQuery({
    queryKey: ['quotas', ns],
    enabled: ns !== undefined,
    queryFn: ({ signal }) =>
      allPages((page_token) =>
        got(
          api.GET('/v1/namespaces/{ns}/quotas', {
            params: { path: { ns: ns as string }, query: { page_token } },
            signal,
          }),
        ),
      ),
  });
  return (
    <>
      <PageHead title={t('quotas.title')} lead={t('quotas.lead')} />
      <h2>{t('quotas.tenant')}</h2>
      <Outcome query={tenant} isEmpty={(d) => d.length === 0} empty={<Nothing text={t('quotas.empty')} />}>
        {(items) => <Bars items={items} />}
      </Outcome>
      {ns && (
        <>
          <h2>{t('quotas.namespace')}</h2>
          <div className="filters">
            <Select
              aria-label={t('nav.namespace')}
              className="filter wide"
              value={ns}
              options={namespaces.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
              onChange={setChosen}
            />
          </div>
          <Outcome query={namespace} isEmpty={(d) => d.length === 0} empty={<Nothing text={t('quotas.empty')} />}>
            {(items) => <Bars items={items} />}
          </Outcome>
        </>
      )}
    </>
  );
}

function Bars({ items }: { items: Schemas['Quota'][] }) {
  const { t } = useTranslation();
  const locale = useLocale();
  return (
    <ul className="quotas" data-testid="quotas">
      {items.map((q) => {
        const percent = q.limit > 0 ? Math.min(100, (q.used / q.limit) * 100) : q.used > 0 ? 100 : 0;
        const name = isQuotaName(q.name) ? t(`quota_name.${q.name}`) : q.name;
        const [used, limit] = [q.used, q.limit].map((n) => formatQuota(n, q.unit, locale)) as [string, string];
        const exact = { used: formatCount(q.used, locale), limit: formatCount(q.limit, locale), unit: q.unit };
        const rate = q.kind === 'rate';
        // What is counted is what the quota is named after, so the unit is said only when it is another one.
        const figures = rate
          ? isRateUnit(q.unit)
            ? t(`quota_rate.${q.unit}`, { limit })
            : t('quotas.rate', { limit, unit: q.unit })
          : q.unit === q.name || q.unit === 'bytes'
            ? t('quotas.count', { used, limit })
            : t('quotas.figures', { used, limit, unit: q.unit });
        return (
          <li key={q.id}>
            <div className="quota-head">
              <span className="quota-name" title={q.name}>
                {name}
              </span>
              <span title={rate ? t('quotas.rate', exact) : t('quotas.figures', exact)}>{figures}</span>
              <span className="muted">{t(`quota_source.${q.source}`)}</span>
            </div>
            {!rate && (
              <Progress
                percent={Math.round(percent)}
                status={percent >= 100 ? 'exception' : 'normal'}
                showInfo={false}
                aria-label={`${name}: ${figures}`}
              />
            )}
          </li>
        );
      })}
    </ul>
  );
}
