import { useQueryClient } from '@tanstack/react-query';
import { Form, Input, Modal } from 'antd';
import { useRef, useState, useSyncExternalStore } from 'react';
import { useTranslation } from 'react-i18next';
import { api, got, type Schemas, session } from '../api/client';
import { proveSignIn, type SecondFactor, secondFactor } from '../api/mfa';
import { leave } from '../lib/leave';
import { useMe } from './data';
import { SecurityKeyButton } from './SecurityKeyButton';
import { ProblemView } from './ui';
import { useSave } from './useSave';

interface Values {
  email: string;
  password: string;
  code?: string;
}

/** Lets a user whose session ended sign in again on the spot, so that a form half filled in is not lost. */
export function Reauthenticate() {
  const { t } = useTranslation();
  const state = useSyncExternalStore(session.subscribe, () => session.state);
  const queries = useQueryClient();
  const me = useMe();
  const who = useRef<string | undefined>(undefined);
  who.current = me.data?.id ?? who.current;
  const [form] = Form.useForm<Values>();
  const [awaited, setAwaited] = useState<Schemas['MfaAwaited']>();
  const [other, setOther] = useState(false);
  const { busy, problem, save, reset } = useSave<Values>(form, async (v) => {
    if (awaited) {
      await prove(awaited, secondFactor(v.code ?? ''));
      return;
    }
    const answer = await got(api.POST('/v1/auth/sign-in', { body: { email: v.email, password: v.password } }));
    if ('mfa_token' in answer) {
      setAwaited(answer);
    } else {
      await enter(answer);
    }
  });

  async function prove(step: Schemas['MfaAwaited'], proof: SecondFactor) {
    await enter(await proveSignIn(step.mfa_token, proof));
  }

  async function enter(grant: Schemas['Session']) {
    setAwaited(undefined);
    if (who.current && grant.user_id !== who.current) {
      // What is on the screen belongs to somebody else.
      setOther(true);
      session.adopt(grant);
      location.reload();
      return;
    }
    session.adopt(grant);
    form.resetFields(['password', 'code']);
    reset();
    await queries.invalidateQueries();
  }

  return (
    <Modal
      open={state === 'expired' && !other}
      zIndex={2000}
      title={t('reauth.title')}
      closable={false}
      mask={{ closable: false }}
      keyboard={false}
      okText={t('sign_in.submit')}
      cancelText={t('nav.sign_out')}
      confirmLoading={busy}
      onOk={form.submit}
      onCancel={() => void leave()}
    >
      <p>{t('reauth.text')}</p>
      {problem && <ProblemView problem={problem} />}
      {awaited?.webauthn_options && (
        <SecurityKeyButton
          options={awaited.webauthn_options}
          onAnswer={(credential) => prove(awaited, { credential })}
        />
      )}
      <Form form={form} name="reauth" layout="vertical" onFinish={save} initialValues={{ email: me.data?.email }}>
        <Form.Item name="email" label={t('form.email')} rules={[{ required: true, message: t('form.required') }]}>
          <Input type="email" autoComplete="username" />
        </Form.Item>
        <Form.Item name="password" label={t('form.password')} rules={[{ required: true, message: t('form.required') }]}>
          <Input type="password" autoComplete="current-password" />
        </Form.Item>
        {awaited && (
          <Form.Item name="code" label={t('sign_in.code')} rules={[{ required: true, message: t('form.required') }]}>
            <Input autoComplete="one-time-code" autoFocus />
          </Form.Item>
        )}
      </Form>
    </Modal>
  );
}
