import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Button, Input, Select, Space } from 'antd';
import { useEffect, useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { useMay, useNamespaces } from '../data';
import { Listing } from '../Listing';
import { compact, type KeysSearch, keyStates } from '../search';
import { Copyable, MayButton, PageHead } from '../ui';
import { useSettled } from '../useSettled';
import { CreateKey } from './keys/CreateKey';
import { RevokeKey } from './keys/EndKey';
import { ReportLeak } from './keys/ReportLeak';
import { RotateKey } from './keys/RotateKey';
import { SecretOnce } from './keys/Secret';
import { KeyEnd, KeyState, LastUse, ScopeSummary } from './keys/show';
import { canRotate } from './keys/values';

const route = getRouteApi('/api-keys');

type Open = { what: 'create' | 'leak' } | { what: 'rotate' | 'revoke'; key: Schemas['ApiKey'] };

export function Keys() {
  const { t } = useTranslation();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayWrite = useMay('key:write');
  const namespaces = useNamespaces();
  const [open, setOpen] = useState<Open>();
  const [fresh, setFresh] = useState<Schemas['ApiKeyWithSecret']>();
  const query = useQuery({
    queryKey: ['keys', search],
    queryFn: ({ signal }) =>
      got(
        api.GET('/v1/api-keys', {
          params: {
            query: { name: search.name, state: search.state, namespace_id: search.ns, page_token: search.page },
          },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
  });
  const filtered = Object.keys(search).length > 0;
  const close = () => setOpen(undefined);

  function show(next: KeysSearch, replace = false) {
    void navigate({ search: compact(next), replace });
  }

  return (
    <>
      <PageHead
        title={t('keys.title')}
        lead={t('keys.lead')}
        actions={
          <Space wrap>
            <Button onClick={() => setOpen({ what: 'leak' })} data-testid="report-leak">
              {t('leak.title')}
            </Button>
            <MayButton
              may={mayWrite}
              type="primary"
              onClick={() => setOpen({ what: 'create' })}
              data-testid="create-key"
            >
              {t('keys.create')}
            </MayButton>
          </Space>
        }
      />
      <search className="filters">
        <NameFilter
          value={search.name ?? ''}
          onChange={(name) => show({ ...search, name: name || undefined, page: undefined }, true)}
        />
        <Select
          allowClear
          className="filter"
          aria-label={t('keys.state')}
          placeholder={t('keys.any_state')}
          value={search.state}
          options={keyStates.map((v) => ({ value: v, label: t(`key_state.${v}`) }))}
          onChange={(state) => show({ ...search, state, page: undefined })}
        />
        <Select
          allowClear
          className="filter"
          aria-label={t('nav.namespace')}
          placeholder={t('keys.any_namespace')}
          value={search.ns}
          showSearch={{ optionFilterProp: 'label' }}
          options={namespaces.data?.map((n) => ({ value: n.id, label: `${n.name} (${n.id})` }))}
          onChange={(ns) => show({ ...search, ns, page: undefined })}
        />
      </search>
      <Listing<Schemas['ApiKey']>
        query={query}
        label={t('keys.title')}
        empty={t('keys.empty')}
        onClear={filtered ? () => show({}) : undefined}
        page={search.page}
        onPage={(page) => show({ ...search, page })}
        columns={[
          {
            title: t('keys.name_and_id'),
            render: (_, k) => (
              <>
                <div data-testid="key-name">
                  <Link to="/api-keys/$id" params={{ id: k.id }}>
                    {k.name}
                  </Link>
                </div>
                <Copyable text={k.id} what={t('keys.id')} />
              </>
            ),
          },
          { title: t('keys.state'), render: (_, k) => <KeyState apiKey={k} /> },
          { title: t('keys.scopes'), render: (_, k) => <ScopeSummary apiKey={k} /> },
          { title: t('keys.last_used'), render: (_, k) => <LastUse apiKey={k} /> },
          { title: t('keys.expires'), render: (_, k) => <KeyEnd apiKey={k} /> },
          {
            title: t('field.actions'),
            className: 'stays',
            render: (_, k) =>
              k.state === 'revoked' || k.workload_identity_id ? null : (
                <Space>
                  {canRotate(k) && (
                    <MayButton
                      size="small"
                      may={mayWrite}
                      onClick={() => setOpen({ what: 'rotate', key: k })}
                      aria-label={t('keys.rotate_one', { name: k.name })}
                    >
                      {t('keys.rotate')}
                    </MayButton>
                  )}
                  <MayButton
                    size="small"
                    danger
                    may={mayWrite}
                    onClick={() => setOpen({ what: 'revoke', key: k })}
                    aria-label={t('keys.revoke_one', { name: k.name })}
                  >
                    {t('keys.revoke')}
                  </MayButton>
                </Space>
              ),
          },
        ]}
      />
      {open?.what === 'create' && <CreateKey onClose={close} onMade={setFresh} />}
      {open?.what === 'leak' && <ReportLeak onClose={close} />}
      {open?.what === 'rotate' && <RotateKey apiKey={open.key} onClose={close} onMade={setFresh} />}
      {open?.what === 'revoke' && <RevokeKey apiKey={open.key} onClose={close} />}
      {fresh && <SecretOnce apiKey={fresh} onClose={() => setFresh(undefined)} />}
    </>
  );
}

/** The API finds names exactly, so the filter asks for the whole name. */
function NameFilter({ value, onChange }: { value: string; onChange: (v: string) => void }) {
  const { t } = useTranslation();
  const [typed, setTyped] = useState(value);
  useSettled(typed.trim(), 400, (v) => {
    if (v !== value) {
      onChange(v);
    }
  });
  useEffect(() => setTyped(value), [value]);
  return (
    <Input
      allowClear
      className="filter"
      aria-label={t('filter.exact_name')}
      placeholder={t('filter.exact_name')}
      maxLength={100}
      value={typed}
      onChange={(e) => setTyped(e.target.value)}
    />
  );
}
