import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { App, Form, Input, Modal } from 'antd';
import { useState } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas } from '../../api/client';
import { namespaceCode } from '../ascode';
import { useMay } from '../data';
import { Listing } from '../Listing';
import { compact } from '../search';
import { AsCode, Copyable, MayButton, PageHead, Phase, ProblemView, Time } from '../ui';
import { useSave } from '../useSave';

const route = getRouteApi('/namespaces');

export function Namespaces() {
  const { t } = useTranslation();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const mayCreate = useMay('namespace:write');
  const [creating, setCreating] = useState(false);
  const query = useQuery({
    queryKey: ['namespaces', 'page', search.page],
    queryFn: ({ signal }) => got(api.GET('/v1/namespaces', { params: { query: { page_token: search.page } }, signal })),
    placeholderData: keepPreviousData,
  });
  return (
    <>
      <PageHead
        title={t('namespaces.title')}
        lead={t('namespaces.lead')}
        actions={
          <MayButton type="primary" may={mayCreate} onClick={() => setCreating(true)} data-testid="create-namespace">
            {t('namespaces.create')}
          </MayButton>
        }
      />
      <Listing<Schemas['Namespace']>
        query={query}
        label={t('namespaces.title')}
        empty={t('namespaces.empty')}
        page={search.page}
        onPage={(page) => void navigate({ search: compact({ page }) })}
        columns={[
          {
            title: t('field.name'),
            render: (_, r) => (
              <Link to="/n/$ns/topics" params={{ ns: r.id }}>
                {r.name}
              </Link>
            ),
          },
          { title: t('field.id'), render: (_, r) => <Copyable text={r.id} what={t('field.id')} /> },
          {
            title: t('namespaces.endpoints'),
            render: (_, r) => (
              <>
                <div className="muted">{t('start.remoting')}</div>
                <Copyable text={r.endpoints.remoting} what={t('start.remoting')} />
                <div className="muted">{t('start.grpc')}</div>
                <Copyable text={r.endpoints.grpc} what={t('start.grpc')} />
              </>
            ),
          },
          { title: t('namespaces.region'), dataIndex: 'region' },
          { title: t('field.status'), render: (_, r) => <Phase status={r.status} /> },
          { title: t('field.created'), render: (_, r) => <Time at={r.created_at} /> },
        ]}
      />
      <CreateNamespace open={creating} onClose={() => setCreating(false)} />
    </>
  );
}

function CreateNamespace({ open, onClose }: { open: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  const { message } = App.useApp();
  const navigate = route.useNavigate();
  const queries = useQueryClient();
  const [form] = Form.useForm<Schemas['NamespaceCreate']>();
  const values = Form.useWatch((v: Schemas['NamespaceCreate']) => v, form) ?? { name: '' };
  const { busy, problem, save, reset } = useSave<Schemas['NamespaceCreate']>(form, async (v) => {
    const made = await got(
      api.POST('/v1/namespaces', { params: { query: { wait: '10s' } }, body: compact({ ...v, name: v.name.trim() }) }),
    );
    await queries.invalidateQueries({ queryKey: ['namespaces'] });
    void message.success(t('namespaces.created', { name: made.name }));
    close();
    void navigate({ to: '/n/$ns/topics', params: { ns: made.id } });
  });

  function close() {
    reset();
    form.resetFields();
    onClose();
  }

  return (
    <Modal
      open={open}
      title={t('namespaces.create')}
      okText={t('action.create')}
      cancelText={t('action.cancel')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={close}
      width={640}
    >
      {problem && <ProblemView problem={problem} />}
      <Form form={form} layout="vertical" onFinish={save}>
        <Form.Item
          name="name"
          label={t('field.name')}
          rules={[{ required: true, whitespace: true, message: t('form.required') }]}
        >
          <Input autoComplete="off" maxLength={100} />
        </Form.Item>
        <Form.Item name="description" label={t('field.description')}>
          <Input maxLength={500} />
        </Form.Item>
      </Form>
      <AsCode {...namespaceCode(values)} />
    </Modal>
  );
}
